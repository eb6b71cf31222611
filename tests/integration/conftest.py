"""A primary with standbys, for the tests of failover and of decoding on a standby."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.standbys import Pair


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    try:
        made.primary.create()
        made.primary.start()
        yield made
    finally:
        made.remove()
