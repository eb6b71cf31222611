"""Writes a small dbt project with one fact."""

from __future__ import annotations

import json
from pathlib import Path

from loader import shipped_files
from loader.scaffold.proposal import Proposal, model_sql, model_yaml
from waltally.errors import SettingError

_PROJECT = """\
name: facts
version: 1.0.0
config-version: 2
profile: waltally

model-paths: [models]

models:
  # psql's \\d+ shows the descriptions of tables and columns.
  +persist_docs: {relation: true, columns: true}

flags:
  send_anonymous_usage_stats: false
"""
_PACKAGES = """\
packages:
  - local: {folder}
"""


def write_project(folder: Path, proposal: Proposal) -> list[Path]:
    """Write the project's files into a folder that is new or empty; return them.

    Raises SettingError where the folder has files or cannot be written.
    """
    files = {
        "dbt_project.yml": _PROJECT,
        "packages.yml": _PACKAGES.format(folder=json.dumps(str(shipped_files.FOLDER))),
        "profiles.yml": (shipped_files.FOLDER / "profiles.yml.example").read_text(),
        f"models/{proposal.name}.sql": model_sql(proposal),
        f"models/{proposal.name}.yml": model_yaml(proposal),
    }
    try:
        if folder.exists() and any(folder.iterdir()):
            raise SettingError(f"{folder} has files already", "name a new folder")
        written = []
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            written.append(path)
    except OSError as error:
        raise SettingError(
            f"{folder} cannot be written: {error.strerror}", "name a folder that you may write"
        ) from error
    return written
