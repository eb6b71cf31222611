"""The wheel: the one of `make release`, or built from a copy without touching the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from testkit.commands import ROOT

_SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE", "requirements.lock"),
    *("dbt_project.yml", "profiles.yml.example", "selectors.yml"),
    *("waltally", "loader", "spark", "dbt_project", "ops"),
)


def build_wheel(folder: Path) -> Path:
    """Return the path of the wheel that WALTALLY_WHEEL names, else build it in an empty folder."""
    if named := os.environ.get("WALTALLY_WHEEL"):
        return Path(named)
    copy = folder / "copy"
    copy.mkdir()
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    program = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found
