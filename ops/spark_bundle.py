"""Pack what a Spark cluster needs of this project: `python ops/spark_bundle.py FOLDER`.

The folder gets the jobs' entry files, waltally.zip with our code, and environment.tar.gz: a virtual
environment with the locked packages that the jobs import, without PySpark, which every cluster has.
Its `bin/python` is a link to this machine's Python, so the cluster needs the same version there.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

from waltally_jobs.common import session

SPARK = Path(__file__).parents[1] / "spark"
JOBS = ("seed.py", "apply.py", "audit.py", "history.py")
IMPORTED = (
    *("typer", "psycopg", "psycopg-binary", "psycopg2-binary", "msgspec"),
    *("pyarrow", "adbc-driver-manager", "adbc-driver-postgresql", "pandas", "tzdata"),
)
"""The packages that our code imports; theirs come with them. An image may have no time zones."""
UNUSED = (
    *("__pycache__/*", "*/__pycache__/*", "../*"),
    *("pyarrow/include/*", "pyarrow/includes/*", "pyarrow/src/*", "pyarrow/*flight*"),
    *("pyarrow/libarrow_python.so", "pyarrow/libarrow_python.so.*.*"),
    *("*/tests/*", "numpy/f2py/*", "*.pyx", "*.pxd", "*.pxi", "*.pyi", "*.h", "*.hpp", "*.a"),
)
"""Files that nothing of ours opens, a third of the archive. PySpark asks for pandas."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def main(folder: Path) -> None:
    """Write the bundle into the folder. It has no secrets: every user may read it."""
    folder.mkdir(parents=True, exist_ok=True)
    for job in JOBS:
        shutil.copyfile(SPARK / job, folder / job)
    session.pack_code(folder / "waltally.zip")
    write_environment(folder / "environment.tar.gz")
    for file in sorted(folder.iterdir()):
        file.chmod(0o644)
        print(f"{file}  {file.stat().st_size / 1e6:.1f} MB")


def write_environment(archive: Path) -> None:
    """Write the virtual environment, which works wherever it is unpacked."""
    base = Path(sys.base_prefix, "bin", PYTHON)
    with tarfile.open(archive, "w:gz", compresslevel=6) as out:
        link = tarfile.TarInfo("bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, str(base)
        out.addfile(link)
        settings = f"home = {base.parent}\ninclude-system-site-packages = false\n".encode()
        described = tarfile.TarInfo("pyvenv.cfg")
        described.size = len(settings)
        out.addfile(described, io.BytesIO(settings))
        for package in needed():
            for file in package.files or ():
                if not any(fnmatch(str(file), unused) for unused in UNUSED):
                    place = f"lib/{PYTHON}/site-packages/{file}"
                    out.add(str(file.locate()), place, recursive=False, filter=anonymous)


def needed() -> Iterator[Distribution]:
    """Yield the packages and all that they require."""
    names = list(IMPORTED)
    for name in names:
        found = distribution(name)
        yield found
        for text in found.requires or ():
            required = Requirement(text)
            if required.name not in names and (
                required.marker is None or required.marker.evaluate({"extra": ""})
            ):
                names.append(required.name)


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the entry without its owner, so everybody may read it: an image has another user."""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]))
