"""Has dbt build a project as a person would, and says which of its tables are for readers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from loader import shipped_files
from loader.setup.dbt_project import find_profile, profile_name, target_folder
from loader.setup.query import MATERIALIZED
from waltally.errors import BuildFailed, SettingError
from waltally.settings import Settings
from waltally.tables import Table


def build(project: Path, settings: Settings) -> None:
    """Run `dbt build`, and `dbt deps` before where packages are missing. Raises BuildFailed."""
    name = profile_name(project, os.environ)
    profiles = find_profile(name, project, os.environ)
    if profiles is None:
        raise SettingError(
            f"No profiles.yml has the profile {name}, by which dbt finds the target",
            f"cp {shipped_files.FOLDER / 'profiles.yml.example'} {project / 'profiles.yml'}",
        )
    files = [project / file for file in ("packages.yml", "dependencies.yml")]
    if any(file.exists() for file in files) and not (project / "dbt_packages").exists():
        _dbt("deps", project, profiles, settings)
    # A data test would warn of the models that wait for their seed.
    _dbt("build", project, profiles, settings, "--exclude-resource-type", "test")


def _dbt(command: str, project: Path, profiles: Path, settings: Settings, *options: str) -> None:
    program = Path(sys.executable).with_name("dbt")
    words = [command, "--project-dir", str(project), "--profiles-dir", str(profiles), *options]
    if not sys.stdout.isatty():
        words.append("--no-use-colors")
    try:
        done = subprocess.run(
            [str(program) if program.exists() else "dbt", *words],
            cwd=project,
            env=os.environ | settings.environment,
        )
    except FileNotFoundError as error:
        remedy = shipped_files.pip_install("waltally[dbt]")
        raise BuildFailed("`loader up` needs dbt, which is not installed here", remedy) from error
    if done.returncode:
        raise BuildFailed(
            f"`dbt {command}` ended with exit code {done.returncode}; it has said why",
            "correct that, then `loader up` goes on",
        )


def readers(project: Path) -> list[Table]:
    """Return the project's models and views that no other one reads, as it was last built."""
    manifest = json.loads((target_folder(project, os.environ) / "manifest.json").read_text())
    nodes = {
        name: node
        for name, node in manifest["nodes"].items()
        if node["resource_type"] == "model"
        and node["package_name"] == manifest["metadata"]["project_name"]
        and node["config"]["materialized"] in (MATERIALIZED, "view")
    }
    read = {name for node in nodes.values() for name in node["depends_on"]["nodes"]}
    return [
        Table(node["schema"], node["alias"]) for name, node in nodes.items() if name not in read
    ]
