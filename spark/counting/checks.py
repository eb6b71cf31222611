"""What must hold before a row is read; each check asks one question and knows the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from common.connections import Connection
from common.errors import SnapshotTooOld
from common.settings import Settings

from loader.preflight.checks import server_findings
from loader.preflight.source_facts import SERVER, TABLE, ServerFacts, table_facts
from loader.preflight.table_checks import countable
from waltally import lsn
from waltally.errors import AnotherCluster, IsStandby, LoaderError, MissingRight, NotSetUp, combine
from waltally.tables import DIMENSIONS, Table, quoted, registration_finding, tables_from_json

STAGING_TABLES = ("slot_position", "historical_snapshot", "historical_counts")


@dataclass(frozen=True)
class SlotPosition:
    """The row of slot_position that the seed must fit."""

    system_identifier: str
    source_database: str
    start_lsn: int


def staging(target: Connection, settings: Settings, stores: bool = True) -> SlotPosition:
    """Return the slot's row. Raises NotSetUp, MissingRight, SettingError for other tables.

    `stores` says that tables will be made: that needs a right more.
    """
    remedy = "run `loader setup` with the same LOADER_SLOT, LOADER_SCHEMA and target"
    found = target.execute(
        "select relname from pg_class inner join pg_namespace on pg_namespace.oid = relnamespace"
        " where nspname = %s and relname = any(%s)",
        (settings.schema, list(STAGING_TABLES)),
    ).fetchall()
    missing = sorted(set(STAGING_TABLES) - {str(name) for (name,) in found})
    if missing:
        raise NotSetUp(f"schema {settings.schema} of the target lacks {', '.join(missing)}", remedy)

    for right in ("usage", "create") if stores else ("usage",):
        allowed = target.execute(
            "select has_schema_privilege(%s, %s)", (settings.schema, right)
        ).fetchone()
        if allowed != (True,):
            raise MissingRight(
                f"role {target.info.user} lacks the right {right} on schema {settings.schema}",
                f"run the {settings.work} with the role that ran `loader setup`",
            )
    row = target.execute(
        "select system_identifier, source_database, start_lsn::text, registered_tables"
        f" from {Table(settings.schema, 'slot_position').quoted} where slot_name = %s",
        (settings.slot,),
    ).fetchone()
    if row is None:
        raise NotSetUp(
            f"slot {settings.slot} has no row in {settings.schema}.slot_position", remedy
        )
    other = registration_finding(
        settings.tables,
        tables_from_json(cast(list[list[str]], row[3])),
        settings.slot,
        logged=False,
    )
    if other is not None:
        raise other
    return SlotPosition(str(row[0]), str(row[1]), lsn.parse(str(row[2])))


def source(connection: Connection, position: SlotPosition) -> None:
    """Raise unless the server is the slot's, a primary, and can make a logical slot for us.

    The server's facts are judged as `loader setup` does; all findings are raised together.
    """
    # No slot of ours is there yet: the snapshot takes a free place.
    row = connection.execute(SERVER.encode(), ("",)).fetchone()
    assert row is not None
    facts = ServerFacts(*row)  # type: ignore[arg-type]
    if facts.in_recovery:
        raise IsStandby(
            "the source is a standby: it cannot export the snapshot of a new slot",
            "point LOADER_SOURCE_DSN or PGHOST at the primary",
        )
    row = connection.execute(
        "select system_identifier::text, current_database() from pg_control_system()"
    ).fetchone()
    assert row is not None
    identifier, database = row
    if (identifier, database) != (position.system_identifier, position.source_database):
        raise AnotherCluster(
            f"the change log was staged from database {position.source_database} of cluster"
            f" {position.system_identifier}; the source is {database} of {identifier}",
            "point LOADER_SOURCE_DSN or PGHOST at the database that `loader setup` was run on",
        )
    if found := server_findings(facts):
        raise combine(found)


def tables(connection: Connection, wanted: Sequence[Table]) -> None:
    """Raise TableUnfit or MissingRight unless every table can be read, dimension by dimension.

    The tables are judged as `loader setup` does; all findings are raised together.
    """
    if found := [finding for table in wanted for finding in table_findings(connection, table)]:
        raise combine(found)


def table_findings(connection: Connection, table: Table) -> list[LoaderError]:
    """Return why the table cannot be counted or not be read."""
    row = connection.execute(TABLE.encode(), (table.schema, table.name)).fetchone()
    facts = table_facts(table, row)
    unfit = countable(facts)
    if unfit is not None:
        return [unfit]
    # A range of rows is cut by ctid, for which a grant on columns must ask too.
    needed = [*DIMENSIONS, "ctid"]
    allowed = connection.execute(
        "select has_schema_privilege(%s::name, 'usage')"
        " and (select bool_and(has_column_privilege(%s, name, 'select'))"
        " from unnest(%s::text[]) as name)",
        (table.schema, table.quoted, needed),
    ).fetchone()
    if allowed == (True,):
        return []
    user = quoted(connection.info.user)
    return [
        MissingRight(
            f"role {connection.info.user} may not read table {table}",
            f"grant usage on schema {quoted(table.schema)} to {user};"
            f" grant select ({', '.join(needed)}) on {table.quoted} to {user};",
        )
    ]


def position(snapshot_lsn: int, start_lsn: int, stored_lsn: int | None) -> None:
    """Raise SnapshotTooOld where the log starts later, or where the stored seed is newer."""
    if snapshot_lsn < start_lsn:
        raise SnapshotTooOld(
            f"the snapshot at {lsn.show(snapshot_lsn)} is older than the change log, which starts"
            f" at {lsn.show(start_lsn)}: the changes between are in neither",
            "take the snapshot or the export after `loader setup`",
        )
    if stored_lsn is not None and snapshot_lsn < stored_lsn:
        raise SnapshotTooOld(
            f"the snapshot at {lsn.show(snapshot_lsn)} is older than the stored seed, which is of"
            f" {lsn.show(stored_lsn)}",
            "nothing is needed: the newer seed stays",
        )
