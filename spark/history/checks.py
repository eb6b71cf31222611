"""What must hold before a row is read; each check asks one question and knows the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from history.connections import Connection
from history.errors import SnapshotTooOld
from history.settings import Settings
from loader import lsn
from loader.errors import (
    AnotherCluster,
    IsStandby,
    MissingRight,
    NotSetUp,
    PluginNotAllowed,
    TableUnfit,
    WalLevelTooLow,
)
from loader.tables import DIMENSIONS, Table

STAGING_TABLES = ("slot_position", "historical_snapshot", "historical_counts")


@dataclass(frozen=True)
class SlotPosition:
    """The row of slot_position that the seed must fit."""

    system_identifier: str
    source_database: str
    start_lsn: int


def staging(target: Connection, settings: Settings, stores: bool = True) -> SlotPosition:
    """Return the slot's row. Raises NotSetUp, MissingRight.

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
        "select system_identifier, source_database, start_lsn::text"
        f" from {Table(settings.schema, 'slot_position').quoted} where slot_name = %s",
        (settings.slot,),
    ).fetchone()
    if row is None:
        raise NotSetUp(
            f"slot {settings.slot} has no row in {settings.schema}.slot_position", remedy
        )
    return SlotPosition(str(row[0]), str(row[1]), lsn.parse(str(row[2])))


def source(connection: Connection, position: SlotPosition) -> None:
    """Raise unless the server is the slot's, a primary, and can make a logical slot for us."""
    row = connection.execute(
        "select pg_is_in_recovery(), current_setting('wal_level'),"
        " (select system_identifier::text from pg_control_system()), current_database(),"
        " (select rolreplication or rolsuper from pg_roles where rolname = current_user),"
        " (select setting from pg_settings where name = 'output_plugin_libraries')"
    ).fetchone()
    assert row is not None
    standby, wal_level, identifier, database, may_replicate, plugins = row
    if standby:
        raise IsStandby(
            "the source is a standby: it cannot export the snapshot of a new slot",
            "point LOADER_SOURCE_DSN or PGHOST at the primary",
        )
    if (identifier, database) != (position.system_identifier, position.source_database):
        raise AnotherCluster(
            f"the change log was staged from database {position.source_database} of cluster"
            f" {position.system_identifier}; the source is {database} of {identifier}",
            "point LOADER_SOURCE_DSN or PGHOST at the database that `loader setup` was run on",
        )
    if wal_level != "logical":
        raise WalLevelTooLow(
            f"the source has wal_level = {wal_level}",
            "alter system set wal_level = logical; then restart the server",
        )
    if not may_replicate:
        user = connection.info.user
        raise MissingRight(
            f"role {user} may not make a replication slot", f'alter role "{user}" replication;'
        )
    names = {name.strip().strip('"') for name in str(plugins or "wal2json").split(",")}
    if plugins is not None and "wal2json" not in names:
        raise PluginNotAllowed(
            f"the source allows the output plugins {plugins!r} only",
            "alter system set output_plugin_libraries = 'wal2json'; then reload the server",
        )


def tables(connection: Connection, wanted: Sequence[Table]) -> None:
    """Raise TableUnfit or MissingRight unless every table can be read, dimension by dimension."""
    for table in wanted:
        row = connection.execute(
            "select pg_class.oid, relkind, has_schema_privilege(relnamespace, 'usage')"
            " from pg_class inner join pg_namespace on pg_namespace.oid = relnamespace"
            " where nspname = %s and relname = %s",
            (table.schema, table.name),
        ).fetchone()
        if row is None:
            raise TableUnfit(
                f"table {table} does not exist at the source", "set LOADER_TABLES or --tables"
            )
        oid, kind, may_use = row
        if kind not in ("r", "p"):
            raise TableUnfit(f"{table} is not a table", "set LOADER_TABLES or --tables")
        columns = {
            str(name): may_read
            for name, may_read in connection.execute(
                "select attname, has_column_privilege(attrelid, attnum, 'select')"
                " from pg_attribute where attrelid = %s and not attisdropped"
                " and (attnum > 0 or attname = 'ctid')",
                (oid,),
            )
        }
        lacking = [name for name in DIMENSIONS if name not in columns]
        if lacking:
            raise TableUnfit(
                f"table {table} has no column {', '.join(lacking)}",
                "set LOADER_TABLES or --tables to tables with the dimensions as columns",
            )
        # A range of rows is cut by ctid, for which a grant on columns must ask too.
        needed = [*DIMENSIONS, *(["ctid"] if kind == "r" else [])]
        if not may_use or not all(columns[name] for name in needed):
            user = connection.info.user
            raise MissingRight(
                f"role {user} may not read table {table}",
                f'grant usage on schema {table.schema} to "{user}";'
                f' grant select ({", ".join(needed)}) on {table} to "{user}";',
            )


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
