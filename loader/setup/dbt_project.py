"""The models that a dbt project declares: dbt parses it, which connects to no database."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from loader import shipped_files
from loader.setup.declared import Declared
from loader.setup.query import MATERIALIZED, Query, declared_queries
from waltally.errors import BuildFailed, LoaderError, SettingError, combine
from waltally.settings import DEFAULT_DBT_SCHEMA
from waltally.tables import Table

log = logging.getLogger("loader")

# A manifest has no compiled code before.
_COMPILE = (
    *("compile", "--no-introspect", "--no-populate-cache", "--no-send-anonymous-usage-stats"),
    *("--quiet", "--log-level", "none", "--log-level-file", "none"),
    *("--select", f"config.materialized:{MATERIALIZED}"),
    # A data test may ask the target.
    *("--indirect-selection", "empty"),
)


def find_declared(
    manifest: str, needs_project: bool = True, environment: Mapping[str, str] = os.environ
) -> Declared:
    """Return what is declared: in this manifest, or, where none is named, in the dbt project.

    Raises SettingError, also where the project is needed and not here, BuildFailed where dbt cannot
    parse it.
    """
    if manifest:
        return read_manifest(Path(manifest))
    is_named = bool(environment.get("DBT_PROJECT_DIR"))
    if not needs_project and not is_named and not _is_project(Path.cwd()):
        return Declared()
    return parse_project(find_project(environment), environment)


def find_project(environment: Mapping[str, str]) -> Path:
    """Return the folder of the dbt project. Raises SettingError where there is none.

    DBT_PROJECT_DIR names it; else it is the current folder.
    """
    if named := environment.get("DBT_PROJECT_DIR"):
        if not _is_project(Path(named)):
            raise SettingError(
                f"DBT_PROJECT_DIR is {named}, and there is no dbt_project.yml in it",
                "set DBT_PROJECT_DIR to the folder of your dbt project",
            )
        return Path(named)
    if _is_project(Path.cwd()):
        return Path.cwd()
    raise SettingError(
        f"There is no dbt project here: {Path.cwd()} has no dbt_project.yml",
        "run this in the folder of your dbt project, or set DBT_PROJECT_DIR to it; a new one: "
        "`loader init live --query report.sql`, with a query of yours",
    )


def parse_project(project: Path, environment: Mapping[str, str]) -> Declared:
    """Return what a dbt project declares. Raises BuildFailed where dbt refuses it."""
    try:
        from dbt.cli.main import dbtRunner
    except Exception as error:
        log.debug("dbt cannot be imported", exc_info=error)
        raise _no_dbt(error) from error
    with TemporaryDirectory(prefix="waltally-parse-") as temporary:
        # dbt's own output stays as it is: another dbt may run in the project.
        folders = ["--project-dir", str(project), "--target-path", temporary]
        folders += ["--log-path", temporary]
        name = profile_name(project, environment)
        profiles = find_profile(name, project, environment)
        if profiles is None:
            profiles = Path(temporary)
            _write_profile(profiles, name, environment)
        folders += ["--profiles-dir", str(profiles), *_unchanged(project)]
        outcome = dbtRunner().invoke([*_COMPILE, *folders])
        if not outcome.success:
            raise _refused(outcome.exception, project)
        return read_manifest(Path(temporary) / "manifest.json")


def _unchanged(project: Path) -> Sequence[str]:
    """Return the options by which dbt takes what has not changed since it last parsed the project.

    dbt itself decides that, by files, variables, profile and version.
    """
    saved = target_folder(project, os.environ) / "partial_parse.msgpack"
    if not saved.is_file():
        return ["--no-partial-parse"]
    return ["--partial-parse", "--partial-parse-file-path", str(saved)]


def _no_dbt(error: Exception) -> BuildFailed:
    """Return what installs dbt where it is missing, or mends it where it cannot be imported."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "dbt":
        problem = "The models are declared in a dbt project, and dbt is not installed here"
        remedy = shipped_files.pip_install("waltally[dbt]")
    else:
        problem = f"dbt cannot be imported: {type(error).__name__} ({error})"
        remedy = shipped_files.pip_install("--force-reinstall", "dbt-core", "dbt-postgres")
    return BuildFailed(
        problem, f"{remedy}; or --manifest with a file that `dbt parse` wrote elsewhere"
    )


def _refused(error: BaseException | None, project: Path) -> BuildFailed:
    """Return why dbt cannot parse the project."""
    lines = [line.strip() for line in str(error).splitlines()]
    message = " ".join(
        line for line in lines if line and not line.startswith(("> in ", "> called by "))
    )
    remedy = f"`dbt parse` in {project} shows the whole error"
    if "Env var required" in message:
        remedy = "set the variables that it names, for `loader setup` and for dbt"
    return BuildFailed(f"dbt cannot parse the project in {project}: {message}", remedy)


def _is_project(folder: Path) -> bool:
    return (folder / "dbt_project.yml").is_file()


def read_settings(project: Path) -> Mapping[str, Any]:
    """Return what the project's dbt_project.yml says."""
    settings: Mapping[str, Any] = yaml.safe_load((project / "dbt_project.yml").read_text()) or {}
    return settings


def target_folder(project: Path, environment: Mapping[str, str]) -> Path:
    """Return where dbt writes what it has made of the project."""
    default = read_settings(project).get("target-path", "target")
    return project / (environment.get("DBT_TARGET_PATH") or str(default))


def profile_name(project: Path, environment: Mapping[str, str]) -> str:
    """Return the name of the profile by which dbt connects for the project."""
    return environment.get("DBT_PROFILE") or str(read_settings(project).get("profile", "default"))


def find_profile(name: str, project: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the folder whose profiles.yml has the profile; None where no file has it."""
    named = environment.get("DBT_PROFILES_DIR")
    folders = (Path(named),) if named else (Path.cwd(), project, Path.home() / ".dbt")
    for folder in folders:
        path = folder / "profiles.yml"
        if path.is_file() and name in (yaml.safe_load(path.read_text()) or {}):
            return folder
    return None


def _write_profile(folder: Path, name: str, environment: Mapping[str, str]) -> None:
    """Write a profile that parsing needs, for a user who has not copied one yet."""
    output = {
        "type": "postgres",
        **dict.fromkeys(("host", "user", "password", "dbname"), "unused"),
        "port": 5432,
        "schema": environment.get("DBT_SCHEMA") or DEFAULT_DBT_SCHEMA,
        "threads": 1,
    }
    # JSON is YAML, and quotes whatever needs it.
    profile = {name: {"target": "default", "outputs": {"default": output}}}
    (folder / "profiles.yml").write_text(json.dumps(profile))


def read_manifest(path: Path) -> Declared:
    """Return what the manifest declares that dbt wrote to a file. Raises SettingError."""
    try:
        manifest = json.loads(path.read_text())
        nodes, sources = manifest["nodes"], manifest.get("sources", {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingError(
            f"{path} is not a manifest of dbt: {type(error).__name__} ({error})",
            "`dbt parse` writes target/manifest.json; name it by --manifest or LOADER_MANIFEST",
        ) from error
    queries = declared_queries(nodes, sources)
    if wrong := list(_misnamed(queries)):
        raise combine(wrong)
    return Declared(queries=queries)


def _misnamed(queries: Iterable[Query]) -> Iterator[LoaderError]:
    """Yield which tables and indexes cannot have the names that dbt would give them."""
    taken: dict[Table, str] = {}
    paths: dict[str, str] = {}
    for query in queries:
        schema, name = query.relation.schema, query.relation.name
        if query.name in paths:
            yield SettingError(
                f"Two models are named {query.name}, {paths[query.name]} and {query.path}: slots"
                " and commands know a model by its name",
                "give each a name of its own, also in two packages",
            )
        paths[query.name] = query.path
        for made in (name, f"{name}_pkey", f"uix_{name}_dimensions"):
            if len(made.encode()) > 63:
                yield SettingError(
                    f"The model {query.name} would make {made}, and a name has at most 63 bytes",
                    "give the model a shorter name or alias",
                )
            other = taken.setdefault(Table(schema, made), query.name)
            if other != query.name:
                yield SettingError(
                    f"The models {other} and {query.name} would both make {schema}.{made}, as a "
                    "table or an index",
                    "give one of them another name or alias",
                )
