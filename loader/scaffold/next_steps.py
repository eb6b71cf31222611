"""What a person types after `loader init`."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

from loader import shipped_files


def missing_tools(commands: Path) -> list[str]:
    """Return what installs the tools that the environment lacks; `commands` is its bin folder.

    pip's spark-submit would do, but prints a hundred lines and takes longer.
    """
    files = shipped_files.FOLDER
    steps = []
    if find_spec("pyspark") is None:
        pip = [str(commands / "python"), "-m", "pip", "install"]
        lock = str(files / "requirements.lock")
        steps.append(shlex.join([*pip, "-c", lock, "waltally[spark]"]))
    shipped, installed = files / "ops" / "spark-submit", commands / "spark-submit"
    if not installed.exists() or installed.read_bytes() != shipped.read_bytes():
        steps.append(shlex.join(["install", "-m", "755", str(shipped), f"{commands}/"]))
    return steps


def next_steps(folder: Path, fact: str, missing: list[str]) -> list[str]:
    """Return the commands from the project in the folder to a live fact."""
    return [
        *missing,
        f"cd {shlex.quote(str(folder))}",
        "dbt deps",
        "loader setup --check      # what the database lacks, and the SQL for it",
        "loader setup",
        "spark-submit spark/seed.py",
        "loader run --build",
        f"loader stats {fact}      # in another terminal, in the same folder",
    ]
