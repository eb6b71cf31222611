"""Our code as one zip, which Spark brings to every machine of a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import loader
import waltally

_OURS = (
    *("archiving", "auditing", "common", "counting", "deltas", "replaying", "seeding", "warehouse"),
)
"""The packages beside `common`."""
_OF_LOADER = ("preflight", "staging")
"""The layers of the loader that Spark's may import."""


def is_packed() -> bool:
    """Return whether this code runs from the zip, as by `spark-submit --py-files`."""
    return not Path(__file__).is_file()


def write(archive: Path) -> None:
    """Write the zip of all modules that the jobs and their tasks import."""
    beside, follower = Path(__file__).parents[1], Path(loader.__file__).parent
    homes = {
        Path(waltally.__file__).parent: Path("waltally"),
        **{beside / name: Path(name) for name in _OURS},
        **{follower / name: Path("loader", name) for name in _OF_LOADER},
    }
    with zipfile.ZipFile(archive, "w") as out:
        out.write(Path(loader.__file__), "loader/__init__.py")
        for home, name in homes.items():
            for file in sorted(home.rglob("*.py")):
                out.write(file, name / file.relative_to(home))
