"""Writes a small dbt project with models, or more of them into it, and what a person types next."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from loader import shipped_files
from loader.setup.dbt_text import plain, source_yaml
from waltally.errors import SettingError
from waltally.tables import Table

_PROJECT = """\
name: {name}
version: 1.0.0
config-version: 2
profile: waltally

model-paths: [models]

# So that a unit test has the time zone of its model.
dispatch: [{{macro_namespace: dbt, search_order: [{name}, waltally, dbt]}}]

models:
  # psql's \\d+ shows the descriptions of tables and columns.
  +persist_docs: {{relation: true, columns: true}}
  {name}:
    # Once the roles of ops/roles.sql are there, waltally_reader may read each model and view.
    +post-hook: "{{{{ waltally.grant_to_reader() }}}}"

flags:
  send_anonymous_usage_stats: false
"""
_LINK = ".waltally"
"""The project's link to the installed files: what is committed names no place of one machine."""

_PACKAGES = f"""\
# A link that is not committed. Elsewhere: ln -s "$(loader files)" {_LINK} && dbt deps
packages:
  - local: {_LINK}
"""


_IGNORED = f"""\
/{_LINK}
/dbt_packages/
/logs/
/target/
"""


def _models(folder: Path, name: str, kind: str = "sql") -> list[Path]:
    return sorted(folder.glob(f"models/**/{name}.{kind}"))


def write_project(
    folder: Path,
    models: Mapping[str, str],
    tables: Sequence[Table],
    replaced: Collection[str] = (),
) -> bool:
    """Write the models, and the project around them where the folder is new or empty; say which.

    A new project gets links to the installed files and to the Spark jobs too. In a project that
    this made, no file that is there changes but those of the `replaced` models, and sources.yml, to
    which a table is added.

    Raises SettingError where the folder has other files or such a model, or cannot be written.
    """
    try:
        is_new = not folder.exists() or not any(folder.iterdir())
        packages = folder / "packages.yml"
        if not is_new and not (
            packages.is_file() and _LINK in packages.read_text(encoding="utf-8")
        ):
            raise SettingError(
                f"{folder} has files already, and is no project that `loader init` made",
                "name a new folder",
            )
        for name in dict.fromkeys(Path(path).stem for path in models):
            if name not in replaced and (there := _models(folder, name, "*")):
                raise SettingError(
                    f"The project has a model {name} already, {there[0]}",
                    "edit it, or delete its .sql and .yml to have them written again",
                )
        files = (_project_files(folder) if is_new else {}) | dict(models)
        sources = folder / "models" / "sources.yml"
        text = sources.read_text(encoding="utf-8") if sources.is_file() else ""
        for table in tables:
            text = source_yaml(text, table)
        files["models/sources.yml"] = text
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if is_new:
            # So that the commands of docs and remedies work here as they stand.
            (folder / _LINK).symlink_to(shipped_files.FOLDER)
            (folder / "spark").symlink_to(f"{_LINK}/spark")
            # As `dbt deps` does for a local package.
            (folder / "dbt_packages").mkdir()
            (folder / "dbt_packages" / "waltally").symlink_to(f"../{_LINK}")
    except OSError as error:
        raise SettingError(
            f"{folder} cannot be written: {error.strerror}", "name a folder that you may write"
        ) from error
    return is_new


def _project_files(folder: Path) -> dict[str, str]:
    shipped = (shipped_files.FOLDER / "profiles.yml.example").read_text()
    return {
        "dbt_project.yml": _PROJECT.format(name=project_name(folder)),
        "packages.yml": _PACKAGES,
        # Without the order to copy it.
        "profiles.yml": shipped.replace("# Copy to profiles.yml. libpq's own", "# libpq's own", 1),
        ".gitignore": _IGNORED,
    }


def project_name(folder: Path) -> str:
    """Return the dbt project's name, from the folder's: setup tells projects apart by it."""
    name = plain(folder.resolve().name)
    if not name or name[0].isdigit() or name in ("waltally", "dbt", "dbt_postgres"):
        return f"models_{name}".strip("_")
    return name


def next_steps(folder: Path, models: Sequence[str], is_new: bool) -> list[str]:
    """Return the commands from the project to live models; a project that was there has others.

    `models` are those that need a seed.
    """
    steps = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
    if not is_new:
        named = "".join(f" --model {model}" for model in models)
        return [*steps, "dbt build", f"spark-submit spark/seed.py{named}"]
    return [*steps, "loader up"]
