"""Everything at source and target that keeps these settings from being followed."""

from __future__ import annotations

from psycopg2 import extensions

from loader.preflight import checks, standby_facts, table_checks, table_identity
from loader.preflight.ask_source import ask_server, ask_table
from loader.preflight.slot_facts import SlotFacts
from loader.preflight.slot_state import RENEW
from waltally.errors import LoaderError, SettingError
from waltally.settings import Settings
from waltally.tables import COUNTED, Table, format_tables, registration_finding


def source_findings(settings: Settings, source: extensions.connection) -> list[LoaderError]:
    """Return everything at the source that must be put right before a slot is made."""
    server = checks.server_findings(ask_server(source, settings.slot))
    found = server + table_findings(settings, source)
    synchronous = standby_facts.synchronous_finding(source)
    return found if synchronous is None else [*found, synchronous]


def table_findings(settings: Settings, source: extensions.connection) -> list[LoaderError]:
    """Return what is wrong with the source's tables."""
    found = []
    for number, table in enumerate(settings.tables):
        found += table_checks.table_findings(ask_table(source, table), number < COUNTED)
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
) -> list[LoaderError]:
    """Return why a slot that is set up cannot be followed with these settings."""
    found = (
        facts.finding or table_replaced(settings, source, target),
        _other_tables(settings, facts.tables),
    )
    return [finding for finding in found if finding is not None]


def _other_tables(settings: Settings, registered: tuple[Table, ...]) -> SettingError | None:
    """Return why the counted tables cannot be these; further ones may come and go at setup."""
    other = registration_finding(settings.counted, registered, settings.slot, logged=False)
    if other is not None:
        other.remedy += f"; or, to count {format_tables(settings.counted)} from now on: {RENEW}"
    return other


def table_replaced(
    settings: Settings, source: extensions.connection, target: extensions.connection
) -> LoaderError | None:
    """Return which table or column is no longer the one that was counted, None where all are."""
    counted = table_identity.read_counted(target, settings.schema, settings.slot)
    found = table_identity.read_current(source, settings.counted)
    return table_identity.replaced_finding(counted, found, settings.archive)
