"""What is shipped beside the Python packages: the dbt package and the Spark jobs.

In a checkout it is the root of the repository. The wheel holds the same files, laid out alike,
below this package.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_IN_A_WHEEL = Path(__file__).parent / "shipped"

FOLDER = _IN_A_WHEEL if _IN_A_WHEEL.is_dir() else Path(__file__).parents[1]
"""It holds dbt_project/, spark/, and from the root dbt's files and requirements.lock."""

INSTALL_DBT = shlex.join(
    [
        *(sys.executable, "-m", "pip", "install", "--force-reinstall"),
        *("-c", str(FOLDER / "requirements.lock"), "dbt-core", "dbt-postgres"),
    ]
)
"""The command that installs the release of dbt that waltally is tested with."""
