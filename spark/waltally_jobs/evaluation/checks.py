"""Checks before a row is read; each asks one question and names the remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loader.findings.server import server_findings
from loader.findings.slot import why_not_followable
from loader.findings.tables import countable
from loader.source.asking import ask_server, read_server, read_slot_state
from loader.source.asking_tables import ask_table
from loader.source.server import Timeline
from loader.source.slot import SlotInfo, of_another_source
from loader.source.standbys import read_history
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.database import Connection
from waltally.errors import LoaderError, MissingRight, SourceBehind, TableUnfit, combine
from waltally.models import Model, needed_columns, source_tables
from waltally.tables import Table, quoted
from waltally_jobs.common.connections import TargetSession, resolved
from waltally_jobs.common.errors import BeginAgain, SnapshotTooOld
from waltally_jobs.evaluation import ranges
from waltally_jobs.evaluation.snapshot import connect_replication


def source(connection: Connection, target: TargetSession, position: SlotPosition) -> None:
    """Raise unless the server is the slot's, can make a logical slot for us, and the slot goes on.

    The findings are those of `loader setup` and `loader run`, since counting mends none of them.
    """
    # No slot name: the snapshot needs a free replication slot.
    server = ask_server(connection, "")
    if (finding := of_another_source(read_server(connection), position)) is not None:
        raise finding
    if found := [*server_findings(server)]:
        raise combine(found)
    here = _of_server(connection)
    timeline(here, position)
    # In this order, because a running loader moves all three.
    state = read_slot_state(connection, target.slot)
    record = target.position()
    now = replace(read_server(connection), timeline=here)
    if (finding := why_not_followable(SlotInfo(target.slot, state, record, now))) is not None:
        raise finding


def tables(connection: Connection, models: Sequence[Model]) -> None:
    """Raise TableUnfit or MissingRight unless every needed column of the models can be read.

    The findings on the tables are those of `loader setup`; all are raised together.
    """
    if found := [
        finding
        for table in source_tables(models)
        for finding in table_findings(connection, table, models)
    ]:
        raise combine(found)


def table_findings(
    connection: Connection, table: Table, models: Sequence[Model]
) -> list[LoaderError]:
    """Return why the table cannot be counted or not be read."""
    unfit = countable(ask_table(connection, table, models), models)
    if unfit:
        return unfit
    # Ranges are cut by ctid, which a grant on columns must include. Leaves are read by themselves.
    needed = [*needed_columns(models, table), "ctid"]
    leaves = ranges.leaves(connection, table)
    foreign = [leaf.table for leaf in leaves if leaf.is_foreign]
    if foreign:
        return [
            TableUnfit(
                f"{', '.join(map(str, foreign))} of {table}: the changes of a foreign table reach"
                " no slot",
                "`loader setup --check` says how to detach it",
            )
        ]
    read = list(dict.fromkeys((table, *(leaf.table for leaf in leaves))))
    rows = connection.ask(
        "select ordinal from unnest(%s::text[], %s::text[]) with ordinality"
        " as wanted (schema, name, ordinal) where not (has_schema_privilege(schema::name, 'usage')"
        " and (select bool_and(has_column_privilege(name, needed, 'select'))"
        " from unnest(%s::text[]) as needed))",
        ([each.schema for each in read], [each.quoted for each in read], needed),
    )
    forbidden = [read[ordinal - 1] for (ordinal,) in rows]
    if not forbidden:
        return [*_of_another(connection, table, read)]
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


_OWNER = """
select pg_get_userbyid(c.relowner)::text
from pg_class as c
inner join pg_roles as own on own.oid = c.relowner and not own.rolsuper
where c.oid = any(%s::text[]::regclass[]) and current_setting('is_superuser')::boolean
order by 1
limit 1
"""


def _of_another(
    connection: Connection, table: Table, read: Sequence[Table]
) -> Iterator[LoaderError]:
    """Yield why a superuser does not read the table: whoever plans a query runs its owner's code.

    An expression or a condition of an index, and an expression of CREATE STATISTICS, may call any
    function, and the planner calls it.
    """
    for (owner,) in connection.ask(_OWNER, ([each.quoted for each in read],)):
        yield MissingRight(
            f"role {connection.info.user} is a superuser, and {table} belongs to {owner}, which is"
            f" none: a function of {owner} in an index of it would run as {connection.info.user}",
            "run it as a role without rights: `psql -f ops/roles.sql` makes waltally_spark"
            " (docs/roles.md), then `export PGUSER=waltally_spark`",
        )


def not_older(
    target: TargetSession, models: Sequence[Model], snapshot_lsn: int, is_counted: bool = False
) -> None:
    """Raise SnapshotTooOld where a baseline would not count.

    Where the log, or that of a table, has begun anew since, a newer snapshot counts: raises
    BeginAgain. Once it `is_counted`, a table's keeps no other model from its baseline: model_state
    says who waits.
    """
    for at, kind, reason, remedy in target.limits(models):
        if snapshot_lsn >= at or (is_counted and kind == "table"):
            continue
        too_old = f"the snapshot at {lsn.show(snapshot_lsn)} is older than {reason}"
        if kind == "baseline" or is_counted:
            raise SnapshotTooOld(too_old, remedy)
        raise BeginAgain(too_old)


def timeline(here: Timeline, slot: SlotPosition) -> None:
    """Raise SourceBehind unless all that the server shows now is of the loader's timeline.

    A former primary has the same system identifier, and may have rows that the loader's server
    never had. Nothing is known before a loader has followed the slot.
    """
    if slot.timeline is None or here.shared_with(slot.timeline, slot.timeline_began_lsn) is None:
        return
    raise SourceBehind(
        f"the source is on timeline {here.number}, and the loader follows timeline {slot.timeline}:"
        " the source is a former primary, or was promoted since",
        "name the present primary in LOADER_SOURCE_DSN and start `loader run`: it says whether"
        " the log goes on",
    )


def _of_server(reader: Connection) -> Timeline:
    """Raises NoFreeSlot, MissingRight, CannotConnect where it takes no replication connection."""
    with contextlib.closing(connect_replication(resolved(reader))) as replication:
        ((_, number, *_),) = replication.ask("IDENTIFY_SYSTEM")
        return read_history(number, lambda command: replication.ask(command)[0])
