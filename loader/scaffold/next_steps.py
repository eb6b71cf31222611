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
    modules = {"dbt": "dbt.cli", "spark": "pyspark"}
    if missing := [extra for extra, module in modules.items() if not _is_installed(module)]:
        steps.append(shipped_files.pip_install(f"waltally[{','.join(missing)}]"))
    shipped, installed = files / "ops" / "spark-submit", commands / "spark-submit"
    if not installed.exists() or installed.read_bytes() != shipped.read_bytes():
        steps.append(shlex.join(["install", "-m", "755", str(shipped), f"{commands}/"]))
    return steps


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of its package
        return False


def next_steps(folder: Path, fact: str, missing: list[str]) -> list[str]:
    """Return the commands from the project in the folder to a live fact."""
    return [
        *missing,
        f"cd {shlex.quote(str(folder))}",
        "dbt deps",
        "loader setup --check      # what the database lacks, and the SQL for it",
        "loader setup",
        "spark-submit spark/seed.py",
        "dbt build",
        "loader run --build",
        f"loader stats {fact}      # in another terminal, in the same folder",
    ]
