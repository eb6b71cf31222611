"""Makes a partition of the change log without locking out its readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.staging.layout import PARTITION_NAME, Block, blocks_at, choose_block
from loader.staging.pruned import BESIDE_THE_LOG, IS_LIKE_THE_LOG, IS_MARKED, STATE
from loader.staging.retention import attach_sql
from waltally import lsn
from waltally.errors import Interrupted, NotSetUp
from waltally.tables import Table

_PARTITIONS_LOCK = "hashtext('waltally partitions'), hashtext(%s)"

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


class _Found(NamedTuple):
    """A table that has a partition's name: its state, the mark, and whether it is ours."""

    state: str
    is_pruned: bool
    is_ours: bool


def make_partition(cursor: extensions.cursor, schema: str, position: int, log_size: int) -> Block:
    """Return the partition that holds the position; make it where it is missing.

    A slot's log that goes back by `log_size` bytes of WAL decides the size. What a killed prune
    left in its place is dropped first. Raises Interrupted where that is in use, NotSetUp where
    somebody detached the partition by hand or another program's table has its name.
    """
    if (there := _attached(_find(cursor, schema, position), position)) is not None:
        return there
    cursor.execute("set local lock_timeout to '5s'")
    # The loader of a second slot may be making or dropping the same partition.
    cursor.execute(f"select pg_advisory_xact_lock({_PARTITIONS_LOCK})", (schema,))
    found = _find(cursor, schema, position)
    if (there := _attached(found, position)) is not None:
        return there
    ours = {block: table for block, table in found.items() if table.is_ours}
    for block, table in ours.items():
        if block.holds(position):
            if not table.is_pruned:
                raise _detached_by_hand(schema, block, table.state)
            _drop_pruned(cursor, schema, block.name, table.state)
    block = choose_block(position, log_size, [block for block in ours if not block.holds(position)])
    if block in found and block not in ours:
        raise _in_the_way(schema, block.name)
    parent, partition = (sql.Identifier(schema, n) for n in ("change_log", block.name))
    # CREATE TABLE ... PARTITION OF would lock out readers of the whole log; ATTACH does not.
    make = sql.SQL("create table {} (like {} including all)")
    cursor.execute(make.format(partition, parent))
    cursor.execute(
        sql.SQL("alter table {} attach partition {} for values from (%s) to (%s)").format(
            parent, partition
        ),
        (lsn.show(block.from_lsn), lsn.show(block.to_lsn)),
    )
    return block


def _find(cursor: extensions.cursor, schema: str, position: int) -> dict[Block, _Found]:
    cursor.execute(_TABLES, (schema, blocks_at(position)[-1].name))
    return {Block.named(name): _Found(*rest) for name, *rest in cursor.fetchall()}


def _attached(found: Mapping[Block, _Found], position: int) -> Block | None:
    return next(
        (
            block
            for block, table in found.items()
            if table.state == "attached" and block.holds(position)
        ),
        None,
    )


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
