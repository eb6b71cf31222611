"""Our code as one zip, which Spark brings to every machine of a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

import loader
import waltally

_OURS = (
    *("applying", "archiving", "auditing", "common", "counting", "deltas", "reading"),
    *("replaying", "seeding"),
    *("waltally_source", "warehouse"),
)
"""The packages beside `common`."""
_OF_LOADER = ("source", "staging")
"""The layers of the loader that Spark's may import."""


def is_packed() -> bool:
    """Return whether this code runs from the zip, as by `spark-submit --py-files`."""
    return not Path(__file__).is_file()


def send(spark: SparkSession) -> Path:
    """Bring our code to every executor, unless it has come there packed; return the zip."""
    if is_packed():
        return Path(__file__).parents[1]
    # Java deletes this folder also where a signal ends the job, and Python could not.
    code = Path(spark.sparkContext._temp_dir) / "waltally.zip"
    if not code.exists():
        write(code)
        spark.sparkContext.addPyFile(str(code))
    return code


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
