"""Makes a partition of the change log without locking out its readers; what a prune left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from psycopg2 import errors as pg

from loader.staging.layout import PARTITION_NAME, Block, blocks_at, choose_block
from waltally import locks, lsn
from waltally.database import Connection
from waltally.errors import Interrupted, LoaderError, NotSetUp
from waltally.tables import Table

MARK = "Pruned: no slot, model or rebuild needs these rows any more. Drop it, never attach it."
"""A partition's comment, set in the transaction that moves start_lsn beyond the partition."""

IS_MARKED = f"coalesce(obj_description(c.oid, 'pg_class') = '{MARK}', false)"
"""SQL: whether the table `c` of pg_class is marked."""

_COLUMNS = (
    "array(select a.attname || ' ' || a.atttypid from pg_attribute as a where a.attrelid = {}.oid "
    "and a.attnum > 0 and not a.attisdropped order by a.attname)"
)
IS_LIKE_THE_LOG = f"(c.relkind = 'r' and {_COLUMNS.format('c')} = {_COLUMNS.format('log')})"
"""SQL: whether `c` of pg_class has the columns of `log`, the change log. Another program's table
may have the name of a partition."""

BESIDE_THE_LOG = """pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_class as log on log.relnamespace = n.oid and log.relname = 'change_log'
left join pg_inherits as i on i.inhrelid = c.oid and i.inhparent = log.oid
"""
"""SQL: the tables `c` in the schema `n` of the change log, and `i` where one is a part of it."""

STATE = (
    "case when i.inhparent is null then 'detached' when i.inhdetachpending then 'pending' "
    "else 'attached' end"
)
"""SQL: whether a table of BESIDE_THE_LOG is a partition of it."""

_ATTACHED_AND_MARKED = f"""
select c.relname
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_inherits as i on i.inhrelid = c.oid
where n.nspname = %s and not i.inhdetachpending and {IS_MARKED}
"""

_PATIENCE = 60.0


def attach_sql(table: str, log: str, block: Block) -> str:
    """Return the SQL that makes a table a partition of the log again; names in quotes."""
    return f"alter table {log} attach partition {table} for values {block.bounds};"


def hold_off_prunes(target: Connection, schema: str) -> None:
    """Keep prunes of the schema from running until the session ends, for a log that begins anew.

    The new log may begin before the old one ended, and a prune that still runs would detach the
    partitions that it writes to. For the same reason the marks of partitions that were never
    detached are removed. Raises Interrupted where a prune does not end within a minute.
    """
    if not locks.acquire(target, "prune", schema, seconds=_PATIENCE, shared=True):
        raise Interrupted(
            f"A prune of schema {schema} is running",
            "run it again when `loader prune` has ended; pg_locks shows it as advisory",
        )
    with target.transaction():
        for (name,) in target.ask(_ATTACHED_AND_MARKED, (schema,)):
            target.ask("comment on table {}.{} is null", None, schema, name)


# The largest block that holds the position, with what is in it: all names begin with its digits.
_TABLES = f"""
select
    c.relname::text,
    {STATE},
    {IS_MARKED},
    {IS_LIKE_THE_LOG}
from {BESIDE_THE_LOG}
where n.nspname = %s and c.relname ~ '{PARTITION_NAME}' and starts_with(c.relname::text, %s)
"""


_IN_USE = (pg.LockNotAvailable, pg.UndefinedTable, pg.ObjectNotInPrerequisiteState)


class _Found(NamedTuple):
    """A table that has a partition's name: its state, the mark, and whether it is ours."""

    state: str
    is_pruned: bool
    is_ours: bool


def make_partition(target: Connection, schema: str, position: int, log_size: int) -> Block:
    """Return the partition that holds the position; make it where it is missing, in a transaction.

    A slot's log that goes back by `log_size` bytes of WAL decides the size. What a killed prune
    left in its place is dropped first. Raises Interrupted where that is in use, NotSetUp where
    somebody detached the partition by hand or another program's table has its name.
    """
    if (there := _attached(_find(target, schema, position), position)) is not None:
        return there
    target.ask("set local lock_timeout to '5s'")
    # The loader of a second slot may be making or dropping the same partition.
    locks.wait(target, "partitions", schema)
    found = _find(target, schema, position)
    if (there := _attached(found, position)) is not None:
        return there
    ours = {block: table for block, table in found.items() if table.is_ours}
    for block, table in ours.items():
        if block.holds(position):
            if not table.is_pruned:
                raise _detached_by_hand(schema, block, table.state)
            _drop_pruned(target, schema, block.name, table.state)
    block = choose_block(position, log_size, [block for block in ours if not block.holds(position)])
    if block in found and block not in ours:
        raise _in_the_way(schema, block.name)
    names = (schema, block.name)
    # CREATE TABLE ... PARTITION OF would lock out readers of the whole log; ATTACH does not.
    target.ask("create table {0}.{1} (like {0}.change_log including all)", None, *names)
    target.ask(
        "alter table {0}.change_log attach partition {0}.{1} for values from (%s) to (%s)",
        (lsn.show(block.from_lsn), lsn.show(block.to_lsn)),
        *names,
    )
    return block


def _find(target: Connection, schema: str, position: int) -> dict[Block, _Found]:
    rows = target.ask(_TABLES, (schema, blocks_at(position)[-1].name))
    return {Block.named(name): _Found(*rest) for name, *rest in rows}


def _attached(found: Mapping[Block, _Found], position: int) -> Block | None:
    return next(
        (
            block
            for block, table in found.items()
            if table.state == "attached" and block.holds(position)
        ),
        None,
    )


def _drop_pruned(target: Connection, schema: str, name: str, state: str) -> None:
    """Finish what a killed prune began. The rows may be of an older log, so none may stay."""
    detach = "alter table {0}.change_log detach partition {0}.{1} finalize"
    try:
        if state == "pending":
            target.ask(detach, None, schema, name)
        target.ask("drop table if exists {}.{}", None, schema, name)
    except LoaderError as error:
        if not isinstance(error.__cause__, _IN_USE):
            raise
        raise Interrupted(
            f"The table {name} that a prune left cannot be dropped now: another session "
            "uses it or the log",
            "wait, or end that session; pg_stat_activity shows open transactions",
        ) from None


def _detached_by_hand(schema: str, block: Block, state: str) -> NotSetUp:
    table, log = (Table(schema, n).quoted for n in (block.name, "change_log"))
    finish = f"alter table {log} detach partition {table} finalize; "
    finish = finish if state == "pending" else ""
    return NotSetUp(
        f"The partition {block.name} was detached from the change log, and not by `loader prune`",
        f"{finish}{attach_sql(table, log, block)} -- or, only where its rows are of no use: "
        f"{finish}drop table {table};",
    )


def _in_the_way(schema: str, name: str) -> NotSetUp:
    return NotSetUp(
        f"Another program's {name} in schema {schema} has the name of a partition that "
        "the change log needs now",
        f"alter table {Table(schema, name).quoted} rename to {name}_other;",
    )
