"""Writes a small dbt project with one fact."""

from __future__ import annotations

import json
import re
from pathlib import Path

from loader import shipped_files
from loader.scaffold.proposal import Proposal, model_sql, model_yaml
from waltally.errors import SettingError

_PROJECT = """\
name: {name}
version: 1.0.0
config-version: 2
profile: waltally

model-paths: [models]

models:
  # psql's \\d+ shows the descriptions of tables and columns.
  +persist_docs: {{relation: true, columns: true}}

flags:
  send_anonymous_usage_stats: false
"""
_PACKAGES = """\
# The folder that `loader files` prints.
packages:
  - local: {folder}
"""


_IGNORED = """\
/dbt_packages/
/logs/
/spark
/target/
"""


def write_project(folder: Path, proposal: Proposal) -> Path:
    """Write the project into a folder that is new or empty; return the file of the fact.

    The folder gets a link to the Spark jobs too.

    Raises SettingError where the folder has files or cannot be written.
    """
    fact = f"models/{proposal.name}.sql"
    files = {
        "dbt_project.yml": _PROJECT.format(name=project_name(folder)),
        "packages.yml": _PACKAGES.format(folder=json.dumps(str(shipped_files.FOLDER))),
        "profiles.yml": _profile(),
        ".gitignore": _IGNORED,
        fact: model_sql(proposal),
        f"models/{proposal.name}.yml": model_yaml(proposal),
    }
    try:
        if folder.exists() and any(folder.iterdir()):
            raise SettingError(f"{folder} has files already", "name a new folder")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        # So that the commands of docs and remedies work here as they stand.
        (folder / "spark").symlink_to(shipped_files.FOLDER / "spark")
    except OSError as error:
        raise SettingError(
            f"{folder} cannot be written: {error.strerror}", "name a folder that you may write"
        ) from error
    return folder / fact


def project_name(folder: Path) -> str:
    """Return the dbt project's name, from the folder's: setup tells projects apart by it."""
    plain = re.sub(r"[^a-z0-9_]+", "_", folder.resolve().name.lower()).strip("_")
    if not plain or plain[0].isdigit() or plain in ("waltally", "dbt", "dbt_postgres"):
        return f"facts_{plain}".strip("_")
    return plain


def _profile() -> str:
    """Return the shipped profile, without the order to copy it."""
    shipped = (shipped_files.FOLDER / "profiles.yml.example").read_text()
    return shipped.replace("# Copy to profiles.yml. libpq's own", "# libpq's own", 1)
