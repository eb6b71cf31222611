"""What stands in the way of a sound slot: one finding a function, each with its remedy.

Pure: facts in, a LoaderError out where something is wrong. The remedies are exact SQL; the
loader never changes the application's tables or the server's settings itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from loader.preflight.source_facts import ServerFacts, TableFacts
from waltally.errors import (
    EncodingUnfit,
    IdentityTooNarrow,
    IsStandby,
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginMissing,
    PluginNotAllowed,
    TableUnfit,
    WalLevelTooLow,
)
from waltally.tables import DIMENSIONS, quoted


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
        "alter system set wal_level = 'logical'; -- then restart the source",
    )


def replication_right(facts: ServerFacts) -> LoaderError | None:
    """Making and streaming a slot needs the role attribute REPLICATION."""
    if facts.may_replicate:
        return None
    return MissingRight(
        f"The role {facts.role} lacks REPLICATION at the source",
        replication_remedy(facts.role, facts.has_rds_replication),
    )


def replication_remedy(role: str, has_rds_replication: bool = False) -> str:
    """Return the SQL that lets the role make and stream slots."""
    if has_rds_replication:
        return f"grant rds_replication to {quoted(role)}; -- as an administrator"
    return f"alter role {quoted(role)} replication; -- as a superuser"


def plugin_missing(major: int | None) -> PluginMissing:
    """Return the error for a server of this version that has no wal2json."""
    package = f"postgresql-{major or '<version>'}-wal2json"
    return PluginMissing(
        "wal2json is not installed on the source",
        f"apt-get install {package}  # on the source, or your provider's way",
    )


def plugin_allowed(facts: ServerFacts) -> LoaderError | None:
    """From the minor releases of autumn 2026 a plugin other than the built-in must be listed."""
    if facts.allowed_plugins is None or "wal2json" in plugin_names(facts.allowed_plugins):
        return None
    return PluginNotAllowed(
        "The source does not allow wal2json: output_plugin_libraries does not list it",
        plugin_remedy(facts.allowed_plugins),
    )


def plugin_names(setting: str) -> list[str]:
    """Return the names in output_plugin_libraries, a list of identifiers."""
    return [
        in_quotes.replace('""', '"') or plain
        for in_quotes, plain in re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', setting)
    ]


# ALTER SYSTEM takes no expression, so psql runs what this statement returns.
_ADD_TO_PRESENT = r"""select 'alter system set output_plugin_libraries = ' \
|| string_agg(quote_literal(name), ', ') from (select coalesce(replace(m[1], '""', '"'), m[2]) \
as name from regexp_matches(current_setting('output_plugin_libraries'), \
'"((?:[^"]|"")*)"|([^[:space:],"]+)', 'g') as m union all select 'wal2json') as listed \gexec \\ \
select pg_reload_conf(); -- in psql, as a superuser""".replace("\\\n", "")


def plugin_remedy(listed: str | None) -> str:
    """Return the SQL that allows wal2json and keeps what other programs need in the list.

    `listed` is the present setting, None where this role may not read it: the statement then
    reads it itself. Each name is a string of its own: one string with commas is one name.
    """
    if listed is None:
        return _ADD_TO_PRESENT
    names = ", ".join(
        "'" + name.replace("'", "''") + "'" for name in [*plugin_names(listed), "wal2json"]
    )
    return (
        f"alter system set output_plugin_libraries = {names}; select pg_reload_conf(); "
        "-- as a superuser"
    )


def free_slot(facts: ServerFacts) -> LoaderError | None:
    """A new slot needs a free place; an existing one has its own."""
    if facts.slot_exists or facts.slots_used < facts.slots_limit:
        return None
    return NoFreeSlot(
        f"All {facts.slots_limit} replication slots of the source are in use",
        f"alter system set max_replication_slots = {facts.slots_limit + 5}; "
        "-- then restart the source; or drop a slot that nobody needs",
    )


def free_sender(facts: ServerFacts) -> LoaderError | None:
    """Following a slot occupies a WAL sender."""
    if facts.senders_used < facts.senders_limit:
        return None
    return NoFreeSlot(
        f"All {facts.senders_limit} WAL senders of the source are in use",
        senders_remedy(facts.senders_limit),
    )


def senders_remedy(limit: int = 15) -> str:
    """Return the SQL that gives the server more WAL senders."""
    return f"alter system set max_wal_senders = {limit + 5}; -- then restart the source"


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


def dimensions_readable(facts: TableFacts) -> LoaderError | None:
    """A value must have one text: that of the stream and that of the seed are of two sessions."""
    if not facts.by_session:
        return None
    found = facts.by_session.items()
    listed = ", ".join(f"column {name} with values of type {type_}" for name, type_ in found)
    changes = ", ".join(f"alter {quoted(name)} type text" for name, _ in found)
    return TableUnfit(
        f"The table {facts.table} has {listed}, whose text depends on the session that reads it, "
        "so it cannot be a dimension",
        f"alter table {facts.table.quoted} {changes};",
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
    choose = f"alter table {table.quoted} replica identity"
    if facts.wide_index is not None:
        return f"{choose} using index {quoted(facts.wide_index)};"
    nullable = [name for name in DIMENSIONS if not facts.columns.get(name)]
    if nullable or not facts.primary_key:
        why = f"{', '.join(nullable)} may be null" if nullable else "the table has no primary key"
        return f"{choose} full; -- an index would write less WAL, but {why}"
    index = quoted(_free_name(table.name, facts.names_taken))
    columns = ", ".join(map(quoted, dict.fromkeys((*facts.primary_key, *DIMENSIONS))))
    return (
        f"create unique index concurrently {index} on {table.quoted} ({columns}); "
        f"{choose} using index {index};"
    )


def _free_name(table: str, taken: frozenset[str]) -> str:
    """Return a name for the table's index: the server would cut a longer one at 63 bytes."""
    for number in itertools.count(1):
        suffix = "_replica_identity" + (f"_{number}" if number > 1 else "")
        name = table.encode()[: 63 - len(suffix)].decode(errors="ignore") + suffix
        if name not in taken:
            return name
    raise AssertionError("the numbers have no end")


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
    if not counted:
        return [unfit] if (unfit := table_fit(facts)) else []
    unfit = countable(facts)
    if unfit is not None:
        return [unfit]
    narrow = identity_wide(facts)
    return [narrow] if narrow else []


def countable(facts: TableFacts) -> LoaderError | None:
    """Return why the rows of a table cannot be counted, None where they can."""
    return table_fit(facts) or dimensions_present(facts) or dimensions_readable(facts)
