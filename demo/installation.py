"""Where the demo's commands come from: this checkout, or an environment that has the wheel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from demo.commands import CommandFailed
from demo.example import ROOT, Example


@dataclass(frozen=True)
class Installation:
    """What the demo needs to know of it; relative paths are seen from `cwd`."""

    commands: Path
    """The folder of loader, dbt and spark-submit."""
    cwd: Path
    project: Path
    """The example's dbt project."""
    files: Path
    """What `loader files` prints: profiles.yml.example and the Spark jobs are there."""


def checkout(example: Example) -> Installation:
    """Return this repository, as `make install` has installed it."""
    project = example.project.relative_to(ROOT)
    return Installation(Path(sys.executable).parent, ROOT, project, Path())


def wheel(example: Example, commands: Path, home: Path) -> Installation:
    """Return an environment that has the wheel, with a copy of the example's project in `home`.

    Nothing of the checkout is used. Raises CommandFailed where `loader files` does.
    """
    commands = commands.absolute()
    done = subprocess.run(
        [commands / "loader", "files"], cwd=home, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CommandFailed(f"loader files ended with exit code {done.returncode}: {done.stderr}")
    files = Path(done.stdout.strip())
    if files == ROOT:
        raise CommandFailed(f"{commands / 'loader'} runs from this checkout, not from a wheel")
    project = home / "project"
    shutil.copytree(example.project / "models", project / "models")
    shutil.copy(example.project / "dbt_project.yml", project)
    # JSON is YAML, and quotes whatever needs it.
    packages = {"packages": [{"local": str(files)}]}
    (project / "packages.yml").write_text(json.dumps(packages))
    return Installation(commands, home, Path("project"), files)
