"""The files that are shipped with the Python packages: the dbt package and the Spark jobs.

In a checkout it is the root of the repository. The wheel holds the same files, laid out alike,
below this package.
"""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from waltally.errors import SettingError

_IN_A_WHEEL = Path(__file__).parent / "shipped"

FOLDER = _IN_A_WHEEL if _IN_A_WHEEL.is_dir() else Path(__file__).parents[1]
"""It holds dbt_project/, spark/, and from the root dbt's files and requirements.lock."""


def pip_install(*words: str) -> str:
    """Return the command that installs packages here, in the versions that were tested."""
    lock = str(FOLDER / "requirements.lock")
    return shlex.join([sys.executable, "-m", "pip", "install", "-c", lock, *words])


def require_grammar() -> None:
    """Raise SettingError where PostgreSQL's grammar, by which SQL is read, is not installed."""
    if find_spec("postgast") is None:
        raise SettingError(
            "Reading SQL needs PostgreSQL's grammar, which is not installed",
            pip_install("waltally[init]"),
        )
