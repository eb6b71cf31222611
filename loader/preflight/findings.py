"""Everything at source and target that keeps these facts from being followed."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import extensions

from loader.preflight import checks, leaf_findings, standby_facts, table_checks, table_identity
from loader.preflight.ask_source import ask_server, ask_table
from loader.preflight.leaf_catalog import LeafCatalog
from loader.preflight.slot_facts import SlotFacts
from loader.staging.registration import other_slot
from waltally.database import explained
from waltally.errors import LoaderError, NotSetUp, SettingError
from waltally.facts import Fact, source_tables
from waltally.settings import Settings


def source_findings(
    settings: Settings, facts: Sequence[Fact], source: extensions.connection
) -> list[LoaderError]:
    """Return everything at the source that must be put right before a slot is made."""
    server = checks.server_findings(ask_server(source, settings.slot))
    found = server + table_findings(facts, source)
    synchronous = standby_facts.synchronous_finding(source)
    return found if synchronous is None else [*found, synchronous]


def table_findings(facts: Sequence[Fact], source: extensions.connection) -> list[LoaderError]:
    """Return what is wrong with the source's tables."""
    found: list[LoaderError] = []
    wanted = table_identity.wanted(facts)
    for table in wanted:
        found += table_checks.table_findings(ask_table(source, table, facts), facts)
    roots = LeafCatalog(source, wanted, {}).roots
    found += leaf_findings.declared_leaves(roots, wanted)
    return found + leaf_findings.leaf_findings(source, roots, facts)


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


def zone_findings(facts: Sequence[Fact], target: extensions.connection) -> list[LoaderError]:
    """Return which time zones the target, where the days are computed, does not know by name.

    It would take any other text too, such as UTC+3, and other programs read that the other way.
    """
    zones: dict[str, str] = {}
    for fact in facts:
        for each in fact.dimensions:
            for zone in (each.timezone, each.column_timezone):
                if zone is not None:
                    zones.setdefault(zone, fact.name)
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            "select zone from unnest(%s::text[]) as zone "
            "where zone <> all (select name from pg_timezone_names)",
            (list(zones),),
        )
        unknown = [zone for (zone,) in cursor.fetchall()]
    return [
        SettingError(
            f"{zones[zone]} takes days in the time zone {zone!r}, which the target does not know",
            "write a name of: select name from pg_timezone_names; such as Europe/London or UTC",
        )
        for zone in unknown
    ]


def other_slot_findings(
    settings: Settings, facts: Sequence[Fact], target: extensions.connection
) -> list[LoaderError]:
    """Return a finding for each fact that another slot feeds and that cannot tell them apart."""
    found: list[LoaderError] = []
    for fact in facts:
        if fact.has_slot_dimension:
            continue
        other = other_slot(target, settings.schema, settings.slot, fact)
        if other is not None:
            found.append(
                SettingError(
                    f"The fact {fact.name} is fed by the slot {other}: the slot {settings.slot} "
                    "would mix its rows with those",
                    "add a dimension such as 'source': {'from': 'slot'} to the fact; or keep the "
                    f"sources apart by LOADER_SCHEMA and DBT_SCHEMA; or, if {other} is gone for "
                    f"good: loader teardown --purge --slot {other}",
                )
            )
    return found


def encoding_findings(
    source: extensions.connection, target: extensions.connection
) -> list[LoaderError]:
    """Return why the target cannot hold the source's text; empty where it can."""
    names = [c.info.parameter_status("server_encoding") or "" for c in (source, target)]
    unfit = checks.encodings_fit(*names)
    return [unfit] if unfit else []


def record_findings(
    settings: Settings,
    source: extensions.connection,
    target: extensions.connection,
    facts: SlotFacts,
    counted: Sequence[Fact],
) -> list[LoaderError]:
    """Return why a slot that is set up cannot be followed for the facts that it counts."""
    if facts.finding is not None:
        return [facts.finding]
    return tables_replaced(settings, source, target, counted)


def tables_replaced(
    settings: Settings,
    source: extensions.connection,
    target: extensions.connection,
    counted: Sequence[Fact],
) -> list[LoaderError]:
    """Return which tables or columns are no longer those that the facts counted."""
    before = table_identity.read_counted(target, settings.schema, settings.slot)
    now = table_identity.read_current(source, table_identity.wanted(counted))
    return table_identity.replaced_findings(counted, before, now)
