"""Makes a partition of the change log without locking out its readers."""

from __future__ import annotations

from typing import NamedTuple

from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.staging.layout import partition_bounds, partition_name
from loader.staging.pruned import BESIDE_THE_LOG, IS_LIKE_THE_LOG, IS_MARKED, STATE
from loader.staging.retention import attach_sql
from waltally import lsn
from waltally.errors import Interrupted, NotSetUp
from waltally.tables import Table

_PARTITIONS_LOCK = "hashtext('waltally partitions'), hashtext(%s)"

_PARTITION = f"""
select
    {STATE},
    {IS_MARKED},
    {IS_LIKE_THE_LOG}
from {BESIDE_THE_LOG}
where n.nspname = %s and c.relname = %s
"""


class _Found(NamedTuple):
    """The table that has the partition's name: its state, the mark, and whether it is ours."""

    state: str
    is_pruned: bool = False
    is_ours: bool = True


def make_partition(cursor: extensions.cursor, schema: str, number: int) -> None:
    """Make the partition with this number where it is missing.

    What a killed prune left in its place is dropped first. Raises Interrupted where that is in
    use, NotSetUp where somebody detached the partition by hand or another program's table has its
    name.
    """
    name = partition_name(number)
    if _find(cursor, schema, name).state == "attached":
        return
    cursor.execute("set local lock_timeout to '5s'")
    # The loader of a second slot may be making or dropping the same partition.
    cursor.execute(f"select pg_advisory_xact_lock({_PARTITIONS_LOCK})", (schema,))
    found = _find(cursor, schema, name)
    if found.state == "attached":
        return
    parent, partition = (sql.Identifier(schema, n) for n in ("change_log", name))
    first, end = partition_bounds(number)
    bounds = (lsn.show(first), lsn.show(end))
    if found.state != "missing":
        if not found.is_ours:
            raise _in_the_way(schema, name)
        if not found.is_pruned:
            raise _detached_by_hand(schema, name, found.state, bounds)
        _drop_pruned(cursor, schema, name, found.state)
    # CREATE TABLE ... PARTITION OF would lock out readers of the whole log; ATTACH does not.
    make = sql.SQL("create table {} (like {} including all)")
    cursor.execute(make.format(partition, parent))
    cursor.execute(
        sql.SQL("alter table {} attach partition {} for values from (%s) to (%s)").format(
            parent, partition
        ),
        bounds,
    )


def _find(cursor: extensions.cursor, schema: str, name: str) -> _Found:
    cursor.execute(_PARTITION, (schema, name))
    row = cursor.fetchone()
    return _Found(*row) if row else _Found("missing")


def _drop_pruned(cursor: extensions.cursor, schema: str, name: str, state: str) -> None:
    """Finish what a killed prune began. The rows may be of an older log, so none may stay."""
    parent, partition = (sql.Identifier(schema, n) for n in ("change_log", name))
    try:
        if state == "pending":
            detach = sql.SQL("alter table {} detach partition {} finalize")
            cursor.execute(detach.format(parent, partition))
        cursor.execute(sql.SQL("drop table if exists {}").format(partition))
    except (pg.LockNotAvailable, pg.UndefinedTable, pg.ObjectNotInPrerequisiteState):
        raise Interrupted(
            f"The table {name} that a prune left cannot be dropped now: another session "
            "uses it or the log",
            "wait, or end that session; pg_stat_activity shows open transactions",
        ) from None


def _detached_by_hand(schema: str, name: str, state: str, bounds: tuple[str, str]) -> NotSetUp:
    table, log = (Table(schema, n).quoted for n in (name, "change_log"))
    finish = f"alter table {log} detach partition {table} finalize; "
    finish = finish if state == "pending" else ""
    return NotSetUp(
        f"The partition {name} was detached from the change log, and not by `loader prune`",
        f"{finish}{attach_sql(table, log, bounds)} -- or, only where its rows are of no use: "
        f"{finish}drop table {table};",
    )


def _in_the_way(schema: str, name: str) -> NotSetUp:
    return NotSetUp(
        f"Another program's {name} in schema {schema} has the name of a partition that "
        "the change log needs now",
        f"alter table {Table(schema, name).quoted} rename to {name}_other;",
    )
