"""dbt in this process, as the tests of trouble have it."""

from __future__ import annotations

import pytest

from loader.build.builder import Models
from tests.trouble.conftest import patch  # noqa: F401  # a fixture


@pytest.fixture(scope="module")
def models() -> Models:
    """The models, parsed once a module: what was parsed holds for one name of a database."""
    return Models()
