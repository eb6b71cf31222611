"""Why what a dbt project declares cannot be registered for a slot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from loader.setup.dbt_project import Declared
from loader.source.server_checks import encodings_fit
from loader.staging import migrate, registration
from waltally.database import Connection
from waltally.errors import LoaderError, NotSetUp, SettingError
from waltally.facts import Fact, source_tables
from waltally.settings import Settings


def declaration_findings(facts: Sequence[Fact]) -> list[LoaderError]:
    """Return why these declarations cannot be registered together."""
    names = [str(table) for table in source_tables(facts)]
    if not names:
        return [
            NotSetUp(
                "The dbt project declares no fact: there is nothing to follow",
                "add a model with {{ fact(...) }}, as the README shows",
            )
        ]
    return [
        SettingError(
            f"Two tables are both written {name}, and the log could not tell them apart",
            "rename one of them: no dot in a schema's or a table's name",
        )
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def zone_findings(facts: Sequence[Fact], target: Connection) -> list[LoaderError]:
    """Return which time zones the target, where the days are computed, does not know by name.

    It would take any other text too, such as UTC+3, and other programs read that the other way.
    """
    zones: dict[str, str] = {}
    for fact in facts:
        for each in fact.dimensions:
            for zone in (each.timezone, each.column_timezone):
                if zone is not None:
                    zones.setdefault(zone, fact.name)
    unknown = target.ask(
        "select zone from unnest(%s::text[]) as zone "
        "where zone <> all (select name from pg_timezone_names)",
        (list(zones),),
    )
    return [
        SettingError(
            f"{zones[zone]} takes days in the time zone {zone!r}, which the target does not know",
            "write a name of: select name from pg_timezone_names; such as Europe/London or UTC",
        )
        for (zone,) in unknown
    ]


def other_slot_findings(
    settings: Settings, facts: Sequence[Fact], target: Connection
) -> list[LoaderError]:
    """Return a finding for each fact that another slot feeds and that cannot tell them apart."""
    if not migrate.version(target, settings.schema):
        return []
    others = {
        fact.name: registration.other_slot(target, settings.schema, settings.slot, fact)
        for fact in facts
        if not fact.has_slot_dimension
    }
    return [
        SettingError(
            f"The fact {name} is fed by the slot {other}: the slot {settings.slot} would mix its "
            "rows with those",
            "add a dimension such as 'source': {'from': 'slot'} to the fact; or keep the sources "
            f"apart by LOADER_SCHEMA and DBT_SCHEMA; or, if {other} is gone for good: "
            f"loader teardown --purge --slot {other}",
        )
        for name, other in others.items()
        if other is not None
    ]


def encoding_findings(source: Connection, target: Connection) -> list[LoaderError]:
    """Return why the target cannot hold the source's text; empty where it can."""
    names = [c.info.parameter_status("server_encoding") or "" for c in (source, target)]
    unfit = encodings_fit(*names)
    return [unfit] if unfit else []


def foreign_findings(
    settings: Settings, declared: Declared, target: Connection
) -> list[LoaderError]:
    """Return which facts of other dbt projects setup would forget, or count by another declaration.

    A fact of which no project is known may stay as it is declared here.
    """
    with target.transaction():
        registered = registration.read_registration(target, settings.schema, settings.slot)
        projects = registration.read_projects(target, settings.schema, settings.slot)
    declarations = {fact.name: fact.declaration for fact in declared.facts}
    lost = []
    for fact in registered.facts:
        project = projects[fact.name]
        if project == declared.project or fact.name in declared.forget:
            continue
        if fact.name not in declarations or (
            project and declarations[fact.name] != fact.declaration
        ):
            lost.append((fact.name, f"the dbt project {project}" if project else "an unknown one"))
    if not lost:
        return []
    listed = ", ".join(f"{name} of {project}" for name, project in lost)
    flags = " ".join(f"--forget {shlex.quote(name)}" for name, _ in lost)
    return [
        SettingError(
            f"The dbt project {declared.project} was read, and setup would forget {listed}",
            "run this in the folder of that dbt project, or set DBT_PROJECT_DIR to it; or, to "
            f"forget what is named: `loader setup {flags}`",
        )
    ]
