"""Makes a partition of the change log without locking out its readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loader.staging.layout import PARTITION_NAME, Block, blocks_at, choose_block
from waltally import locks, lsn
from waltally.database import Connection
from waltally.errors import NotSetUp
from waltally.tables import Table

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


def make_partition(target: Connection, schema: str, position: int, log_size: int) -> Block:
    """Return the partition that holds the position; make it where it is missing, in a transaction.

    A slot's log that goes back by `log_size` bytes of WAL decides the size. Raises NotSetUp where
    somebody detached the partition or another program's table has its name.
    """
    if (there := _attached(_find(target, schema, position), position)) is not None:
        return there
    target.ask("set local lock_timeout to '5s'")
    # The loader of a second slot may be making the same partition.
    locks.wait(target, "partitions", schema)
    tables = _find(target, schema, position)
    if (there := _attached(tables, position)) is not None:
        return there
    for block, table in tables.items():
        if block.holds(position) and table.is_like_the_log:
            raise _detached_by_hand(schema, block)
    others = [block for block, table in tables.items() if table.is_like_the_log]
    block = choose_block(position, log_size, others)
    if block in tables:
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


def _find(target: Connection, schema: str, position: int) -> dict[Block, _Table]:
    rows = target.ask(_TABLES, (schema, blocks_at(position)[-1].name))
    return {Block.named(name): _Table(*rest) for name, *rest in rows}


def _attached(tables: Mapping[Block, _Table], position: int) -> Block | None:
    return next(
        (block for block, table in tables.items() if table.is_attached and block.holds(position)),
        None,
    )


def _detached_by_hand(schema: str, block: Block) -> NotSetUp:
    table, log = (Table(schema, name).quoted for name in (block.name, "change_log"))
    return NotSetUp(
        f"The partition {block.name} was detached from the change log, and not by `loader prune`",
        f"alter table {log} attach partition {table} for values {block.bounds}; "
        f"-- or, only where its rows are of no use: drop table {table};",
    )


def _in_the_way(schema: str, name: str) -> NotSetUp:
    return NotSetUp(
        f"Another program's {name} in schema {schema} has the name of a partition that "
        "the change log needs now",
        f"alter table {Table(schema, name).quoted} rename to {name}_other;",
    )
