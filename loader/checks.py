"""What stands in the way of a sound slot: one finding a function, each with its remedy.

Pure: facts in, a LoaderError out where something is wrong. The remedies are exact SQL; the
loader never changes the application's tables or the server's settings itself.
"""

from __future__ import annotations

from collections.abc import Callable

from loader.errors import (
    EncodingUnfit,
    IdentityTooNarrow,
    IsStandby,
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    TableUnfit,
    WalLevelTooLow,
)
from loader.source_facts import ServerFacts, TableFacts
from loader.tables import DIMENSIONS


def standby(facts: ServerFacts) -> LoaderError | None:
    """A standby cannot hold a logical slot that survives, before PostgreSQL 16 none at all."""
    if not facts.in_recovery:
        return None
    return IsStandby(
        "The source is a standby: a slot is made on the primary",
        "name the primary in LOADER_SOURCE_DSN or PGHOST",
    )


def wal_level(facts: ServerFacts) -> LoaderError | None:
    """Logical decoding needs wal_level = logical."""
    if facts.wal_level == "logical":
        return None
    return WalLevelTooLow(
        f"The source runs with wal_level = {facts.wal_level}, logical decoding needs logical",
        "alter system set wal_level = 'logical'; then restart the source",
    )


def replication_right(facts: ServerFacts) -> LoaderError | None:
    """Making and streaming a slot needs the role attribute REPLICATION."""
    if facts.may_replicate:
        return None
    return MissingRight(
        f"The role {facts.role} lacks REPLICATION at the source",
        f'as a superuser: alter role "{facts.role}" replication;',
    )


def plugin_allowed(facts: ServerFacts) -> LoaderError | None:
    """From the minor releases of autumn 2026 a plugin other than the built-in must be listed."""
    allowed = facts.allowed_plugins
    if allowed is None or "wal2json" in [name.strip(' "') for name in allowed.split(",")]:
        return None
    wanted = ", ".join(f"'{name}'" for name in [*filter(None, [allowed.strip()]), "wal2json"])
    return PluginNotAllowed(
        "The source does not allow wal2json: output_plugin_libraries does not list it",
        f"alter system set output_plugin_libraries = {wanted}; select pg_reload_conf(); "
        "or restart the source",
    )


def free_slot(facts: ServerFacts) -> LoaderError | None:
    """A new slot needs a free place; an existing one has its own."""
    if facts.slot_exists or facts.slots_used < facts.slots_limit:
        return None
    return NoFreeSlot(
        f"All {facts.slots_limit} replication slots of the source are in use",
        f"drop one, or: alter system set max_replication_slots = {facts.slots_limit + 5}; "
        "then restart the source",
    )


def free_sender(facts: ServerFacts) -> LoaderError | None:
    """Following a slot occupies a WAL sender."""
    if facts.senders_used < facts.senders_limit:
        return None
    return NoFreeSlot(
        f"All {facts.senders_limit} WAL senders of the source are in use",
        f"alter system set max_wal_senders = {facts.senders_limit + 5}; then restart the source",
    )


def table_fit(facts: TableFacts) -> LoaderError | None:
    """Only an ordinary, logged table that has the dimensions can be followed."""
    remedy = "name existing tables in LOADER_TABLES or --tables"
    if facts.kind is None:
        return TableUnfit(f"The table {facts.table} does not exist at the source", remedy)
    if facts.kind == "p":
        return TableUnfit(
            f"The table {facts.table} is partitioned: its changes come under its partitions' names",
            "name the partitions in LOADER_TABLES; counting a partitioned table is not supported",
        )
    if facts.kind != "r":
        return TableUnfit(f"{facts.table} is not a table", remedy)
    if facts.persistence != "p":
        return TableUnfit(
            f"The table {facts.table} is not logged, so its changes reach no slot",
            f"alter table {facts.table.quoted} set logged;",
        )
    return None


def dimensions_present(facts: TableFacts) -> LoaderError | None:
    """A counted table must have every dimension."""
    missing = [name for name in DIMENSIONS if name not in facts.columns]
    if not missing:
        return None
    return TableUnfit(
        f"The table {facts.table} has no column {', '.join(missing)}",
        "name tables that have " + ", ".join(DIMENSIONS) + " in LOADER_TABLES",
    )


def identity_wide(facts: TableFacts) -> LoaderError | None:
    """An old row must carry the dimensions, or its count cannot be found again.

    Source: PostgreSQL documentation, "ALTER TABLE", REPLICA IDENTITY.
    """
    if facts.identity == "f":
        return None
    missing = [name for name in DIMENSIONS if name not in facts.identity_columns]
    if not missing and facts.identity != "n":
        return None
    return IdentityTooNarrow(
        f"The replica identity of {facts.table} does not carry {', '.join(missing)}: "
        "deletes and moves between groups could not be counted",
        identity_remedy(facts),
    )


def identity_remedy(facts: TableFacts) -> str:
    """Return the SQL that gives the table an identity wide enough."""
    table = facts.table
    nullable = [name for name in ("id", *DIMENSIONS) if not facts.columns.get(name)]
    if nullable:
        return (
            f"alter table {table.quoted} replica identity full; "
            f"-- an index would write less WAL, but {', '.join(nullable)} may be null"
        )
    index = f"{table.name}_replica_identity"
    return (
        f'create unique index concurrently "{index}" on {table.quoted} '
        f"(id, {', '.join(DIMENSIONS)}); "
        f'alter table {table.quoted} replica identity using index "{index}";'
    )


def encodings_fit(source: str, target: str) -> LoaderError | None:
    """The plugin sends text as the source stores it, and the target must hold every character."""
    if target in (source, "SQL_ASCII") or (target == "UTF8" and source != "SQL_ASCII"):
        return None
    return EncodingUnfit(
        f"The target's encoding is {target}, which cannot hold every text of a source in {source}",
        f"name a target database made with: create database ... encoding '{source}' template "
        "template0" + ("" if source == "SQL_ASCII" else "; UTF8 holds every encoding's text"),
    )


SERVER_CHECKS: tuple[Callable[[ServerFacts], LoaderError | None], ...] = (
    standby,
    wal_level,
    replication_right,
    plugin_allowed,
    free_slot,
    free_sender,
)


def server_findings(facts: ServerFacts) -> list[LoaderError]:
    """Return everything wrong with the server, the most fundamental first."""
    return [finding for check in SERVER_CHECKS if (finding := check(facts))]


def table_findings(facts: TableFacts, counted: bool) -> list[LoaderError]:
    """Return what is wrong with a table; one that is only logged needs no dimensions."""
    unfit = table_fit(facts)
    if unfit is None and counted:
        unfit = dimensions_present(facts)
    if unfit is not None:
        return [unfit]
    narrow = identity_wide(facts) if counted else None
    return [narrow] if narrow else []
