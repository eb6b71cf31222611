"""Writes a small dbt project with one fact, or one more fact, and says what a person types next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from loader import shipped_files
from loader.setup.proposal import Proposal, model_sql, model_yaml
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
_LINK = ".waltally"
"""The project's link to the installed files: what is committed names no place of one machine."""

_PACKAGES = f"""\
# A link that is not committed. Elsewhere: ln -s "$(loader files)" {_LINK}
packages:
  - local: {_LINK}
"""


_IGNORED = f"""\
/{_LINK}
/dbt_packages/
/logs/
/target/
"""


def write_project(folder: Path, proposal: Proposal) -> Path:
    """Write the project into a folder that is new or empty; return the file of the fact.

    The folder gets links to the installed files and to the Spark jobs too.

    Raises SettingError where the folder has files or cannot be written.
    """
    files = {
        "dbt_project.yml": _PROJECT.format(name=project_name(folder)),
        "packages.yml": _PACKAGES,
        "profiles.yml": _profile(),
        ".gitignore": _IGNORED,
        **_model_files(proposal),
    }
    with _writing(folder):
        if folder.exists() and any(folder.iterdir()):
            raise SettingError(
                f"{folder} has files already",
                "name a new folder, or add a fact to a project of `loader init` with --add",
            )
        _write(folder, files)
        # So that the commands of docs and remedies work here as they stand.
        (folder / _LINK).symlink_to(shipped_files.FOLDER)
        (folder / "spark").symlink_to(f"{_LINK}/spark")
    return folder / "models" / f"{proposal.name}.sql"


def add_fact(folder: Path, proposal: Proposal) -> Path:
    """Write one more fact into a project that `write_project` made; return its file.

    Raises SettingError where the folder is no such project, has such a model, or cannot be written.
    """
    with _writing(folder):
        packages = folder / "packages.yml"
        if not packages.is_file() or _LINK not in packages.read_text(encoding="utf-8"):
            raise SettingError(
                f"{folder} is no project that `loader init` made", "leave out --add to make one"
            )
        if there := sorted(folder.glob(f"models/**/{proposal.name}.*")):
            raise SettingError(
                f"The project has a model {proposal.name} already, {there[0]}",
                "rename that model and its files, or declare more columns there",
            )
        _write(folder, _model_files(proposal))
    return folder / "models" / f"{proposal.name}.sql"


def _model_files(proposal: Proposal) -> dict[str, str]:
    return {
        f"models/{proposal.name}.sql": model_sql(proposal),
        f"models/{proposal.name}.yml": model_yaml(proposal),
    }


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingError(
            f"{folder} cannot be written: {error.strerror}", "name a folder that you may write"
        ) from error


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


def steps_of_added(folder: Path, fact: str) -> list[str]:
    """Return the commands from a project whose loader may run to another live fact."""
    return [
        f"cd {shlex.quote(str(folder))}",
        "loader setup --check      # what the table lacks, and the SQL for it",
        "loader setup",
        f"spark-submit spark/seed.py --fact {fact}",
        "dbt build",
        f"loader stats {fact}",
    ]


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
