"""The wheel, built from a copy of what it is made of, without touching the network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.commands import ROOT

_SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE", "requirements.lock"),
    *("dbt_project.yml", "profiles.yml.example"),
    *("waltally", "loader", "spark", "dbt_project", "ops"),
)


def build_wheel(folder: Path) -> Path:
    """Build the wheel in an empty folder and return its path."""
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
