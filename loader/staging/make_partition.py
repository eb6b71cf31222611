"""Makes the partition of the change log that holds a position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loader.staging.partitions import PARTITION_NAME, Block, blocks_at, choose_block
from waltally import locks, lsn
from waltally.database import Target
from waltally.errors import NotSetUp

_COLUMNS = (
    "array(select a.attname || ' ' || a.atttypid from pg_attribute as a where a.attrelid = {}.oid "
    "and a.attnum > 0 and not a.attisdropped order by a.attname)"
)
# The partitions whose names begin as that of the largest block that holds the position, and other
# tables with such a name. What has the columns of the log, somebody has detached.
_TABLES = f"""
select
    c.relname::text,
    coalesce(not i.inhdetachpending, false),
    c.relkind = 'r' and {_COLUMNS.format("c")} = {_COLUMNS.format("log")}
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_class as log on log.relnamespace = n.oid and log.relname = 'change_log'
left join pg_inherits as i on i.inhrelid = c.oid and i.inhparent = log.oid
where n.nspname = %s and c.relname ~ '{PARTITION_NAME}' and starts_with(c.relname::text, %s)
"""


class _Table(NamedTuple):
    """A table that has a partition's name."""

    is_attached: bool
    is_like_the_log: bool


def make_partition(target: Target, position: int, log_size: int) -> Block:
    """Return the partition that holds the position; make it where it is missing, in a transaction.

    A slot's log that goes back by `log_size` bytes of WAL decides the size. Raises NotSetUp where
    somebody detached the partition or another program's table has its name.
    """
    if (there := _attached(_find(target, position), position)) is not None:
        return there
    target.ask("set local lock_timeout to '5s'")
    # The loader of a second slot may be making the same partition.
    locks.wait(target, "partitions", target.schema)
    tables = _find(target, position)
    if (there := _attached(tables, position)) is not None:
        return there
    for block, table in tables.items():
        if block.holds(position) and table.is_like_the_log:
            raise _detached_by_hand(target, block)
    others = [block for block, table in tables.items() if table.is_like_the_log]
    block = choose_block(position, log_size, others)
    if block in tables:
        raise _in_the_way(target, block.name)
    # CREATE TABLE ... PARTITION OF would lock out readers of the whole log; ATTACH does not.
    target.ask_staging("create table {0}.{1} (like {0}.change_log including all)", None, block.name)
    target.ask_staging(
        "alter table {0}.change_log attach partition {0}.{1} for values from (%s) to (%s)",
        (lsn.show(block.from_lsn), lsn.show(block.to_lsn)),
        block.name,
    )
    return block


def _find(target: Target, position: int) -> dict[Block, _Table]:
    rows = target.ask(_TABLES, (target.schema, blocks_at(position)[-1].name))
    return {Block.named(name): _Table(*rest) for name, *rest in rows}


def _attached(tables: Mapping[Block, _Table], position: int) -> Block | None:
    return next(
        (block for block, table in tables.items() if table.is_attached and block.holds(position)),
        None,
    )


def _detached_by_hand(target: Target, block: Block) -> NotSetUp:
    table, log = target.table(block.name), target.table("change_log")
    return NotSetUp(
        f"The partition {block.name} was detached from the change log, and not by `loader prune`",
        f"alter table {log} attach partition {table} for values {block.bounds}; "
        f"-- or, only where its rows are of no use: drop table {table};",
    )


def _in_the_way(target: Target, name: str) -> NotSetUp:
    return NotSetUp(
        f"Another program's {name} in schema {target.schema} has the name of a partition that "
        "the change log needs now",
        f"alter table {target.table(name)} rename to {name}_other;",
    )
