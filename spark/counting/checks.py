"""Checks before a row is read; each asks one question and names the remedy."""

from __future__ import annotations

from collections.abc import Sequence

from common import slot_position
from common.connections import Connection
from common.errors import SnapshotTooOld
from common.logged_tables import HeldSince
from common.settings import Settings

from counting import ranges, timelines
from loader.source.server import SERVER, ServerInfo
from loader.source.server_checks import server_findings
from loader.source.table import table_info, table_query
from loader.source.table_checks import countable
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import (
    AnotherCluster,
    IsStandby,
    LoaderError,
    MissingRight,
    NotSetUp,
    TableUnfit,
    combine,
)
from waltally.facts import Fact, needed_columns, source_tables
from waltally.settings import jobs_schema
from waltally.tables import Table, quoted

STAGING_TABLES = ("slot_position", "fact", "baseline", "baseline_group", "baseline_rejection")


def staging(target: Connection, settings: Settings, stores: bool = True) -> SlotPosition:
    """Return the slot's row. Raises NotSetUp, MissingRight.

    With `stores` the role also needs the right to create tables.
    """
    there = target.execute(
        "select relname from pg_class inner join pg_namespace on pg_namespace.oid = relnamespace"
        " where nspname = %s and relname = any(%s)",
        (settings.schema, list(STAGING_TABLES)),
    ).fetchall()
    missing = sorted(set(STAGING_TABLES) - {str(name) for (name,) in there})
    if missing:
        raise NotSetUp(
            f"schema {settings.schema} of the target lacks {', '.join(missing)}",
            slot_position.REMEDY,
        )

    rights = {settings.schema: "usage"}
    if stores:
        rights[jobs_schema(settings.schema)] = "create"
    for schema, right in rights.items():
        allowed = target.execute(
            "select has_schema_privilege(oid, %s) from pg_namespace where nspname = %s",
            (right, schema),
        ).fetchone()
        if allowed != (True,):
            raise MissingRight(
                f"role {target.info.user} lacks the right {right} on schema {schema}",
                f"run the {settings.work} with the role that ran `loader setup`",
            )
    return slot_position.read(target, settings.schema, settings.slot)


def source(connection: Connection, position: SlotPosition) -> None:
    """Raise unless the server is the slot's, a primary, and can make a logical slot for us.

    The findings are those of `loader setup`; all are raised together.
    """
    # No slot name: the snapshot needs a free replication slot.
    row = connection.execute(SERVER.encode(), ("",)).fetchone()
    assert row is not None
    facts = ServerInfo(*row)  # type: ignore[arg-type]
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
    if facts.in_recovery:
        raise IsStandby(
            "the source is a standby, where no snapshot of a slot is taken",
            "a seed reads a standby with --standby; for anything else name the primary in --source",
        )
    if found := server_findings(facts):
        raise combine(found)
    timelines.check(connection, position, is_standby=False)


def tables(connection: Connection, facts: Sequence[Fact]) -> None:
    """Raise TableUnfit or MissingRight unless every needed column of the facts can be read.

    The findings on the tables are those of `loader setup`; all are raised together.
    """
    if found := [
        finding
        for table in source_tables(facts)
        for finding in table_findings(connection, table, facts)
    ]:
        raise combine(found)


def table_findings(
    connection: Connection, table: Table, facts: Sequence[Fact]
) -> list[LoaderError]:
    """Return why the table cannot be counted or not be read."""
    row = connection.execute(table_query(table, facts).encode()).fetchone()
    unfit = countable(table_info(table, row), facts)
    if unfit:
        return unfit
    # Ranges are cut by ctid, which a grant on columns must include. Leaves are read by themselves.
    needed = [*needed_columns(facts, table), "ctid"]
    leaves = ranges.leaves(connection, table)
    foreign = [leaf.table for leaf in leaves if not leaf.has_addresses]
    if foreign:
        return [
            TableUnfit(
                f"{', '.join(map(str, foreign))} of {table}: the changes of a foreign table reach"
                " no slot",
                "`loader setup --check` says how to detach it",
            )
        ]
    read = list(dict.fromkeys((table, *(leaf.table for leaf in leaves))))
    rows = connection.execute(
        "select place from unnest(%s::text[], %s::text[]) with ordinality"
        " as wanted (schema, name, place) where not (has_schema_privilege(schema::name, 'usage')"
        " and (select bool_and(has_column_privilege(name, needed, 'select'))"
        " from unnest(%s::text[]) as needed))",
        ([each.schema for each in read], [each.quoted for each in read], needed),
    ).fetchall()
    forbidden = [read[int(str(place)) - 1] for (place,) in rows]
    if not forbidden:
        return []
    user = quoted(connection.info.user)
    columns = ", ".join(map(quoted, needed))
    schemas = dict.fromkeys(quoted(each.schema) for each in forbidden)
    names = ", ".join(map(str, forbidden))
    return [
        MissingRight(
            f"role {connection.info.user} may not read table {names}",
            f"grant usage on schema {', '.join(schemas)} to {user};"
            f" grant select ({columns}) on {', '.join(each.quoted for each in forbidden)}"
            f" to {user};",
        )
    ]


def earliest(slot: SlotPosition, held: HeldSince, baseline_lsn: int | None) -> int:
    """Return the first position that `position` and `log_holds` take for a baseline."""
    return max(slot.start_lsn, baseline_lsn or 0, *_begins(slot, held).values())


def _begins(slot: SlotPosition, held: HeldSince) -> dict[str, int]:
    return {table: slot.position_lsn if at is None else at for table, at in held.items()}


def log_holds(snapshot_lsn: int, slot: SlotPosition, held: HeldSince) -> None:
    """Raise SnapshotTooOld where the log does not hold the changes from the snapshot on.

    A table that is not followed yet will be from the slot's position on, so that is read last.
    """
    for table, begin in _begins(slot, held).items():
        if snapshot_lsn < begin:
            raise SnapshotTooOld(
                f"the snapshot at {lsn.show(snapshot_lsn)} is older than the changes of {table} in"
                f" the log, which begin at {lsn.show(begin)}",
                "seed after `loader setup`, with `loader run` running",
            )


def position(snapshot_lsn: int, start_lsn: int, baseline_lsn: int | None) -> None:
    """Raise SnapshotTooOld where the log starts later, or where a stored baseline is newer."""
    if snapshot_lsn < start_lsn:
        raise SnapshotTooOld(
            f"the snapshot at {lsn.show(snapshot_lsn)} is older than the change log, which starts"
            f" at {lsn.show(start_lsn)}: the changes between are in neither",
            "seed after `loader setup`",
        )
    if baseline_lsn is not None and snapshot_lsn < baseline_lsn:
        raise SnapshotTooOld(
            f"the snapshot at {lsn.show(snapshot_lsn)} is older than the stored baseline, which is"
            f" of {lsn.show(baseline_lsn)}",
            "nothing is needed: the newer baseline stays",
        )
