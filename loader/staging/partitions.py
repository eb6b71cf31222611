"""The partitions of the change log: which one holds a position, and how one is made. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from waltally import locks, lsn
from waltally.errors import NotSetUp

if TYPE_CHECKING:
    from waltally.database import Target

COLUMNS = ("slot_name", "commit_lsn", "xid", "committed_at", "ordinal", "action", "payload")
"""The columns of change_log in the order of `Batcher`'s rows; staged_at has its default."""

PARTITION_NAME = "^change_log_[0-9a-f]{8,10}$"
"""SQL and Python: the names of partitions."""

_BITS = (24, 28, 32)
"""A partition spans 16 MiB, 256 MiB or 4 GiB of WAL: 10, 9 or 8 hexadecimal digits name it."""

_SHARES = 4
"""A log of four times a size goes on in partitions of that size."""


@dataclass(frozen=True, order=True)
class Block:
    """The positions of one partition: those whose 16 hexadecimal digits begin with the same digits.

    So two blocks are the same, lie apart, or one lies within the other.
    """

    from_lsn: int
    """The first position that belongs to it."""
    to_lsn: int
    """The first position that belongs to the next."""

    @classmethod
    def named(cls, name: str) -> Block:
        """Return the block of a partition with this name. Raises ValueError for another name."""
        if re.match(PARTITION_NAME, name) is None:
            raise ValueError(f"not the name of a partition: {name!r}")
        digits = name.removeprefix("change_log_")
        bits = 64 - 4 * len(digits)
        return cls(int(digits, 16) << bits, int(digits, 16) + 1 << bits)

    @property
    def name(self) -> str:
        """The partition's table in the staging schema."""
        bits = (self.to_lsn - self.from_lsn).bit_length() - 1
        return f"change_log_{self.from_lsn >> bits:0{16 - bits // 4}x}"

    @property
    def bounds(self) -> str:
        """The bounds as SQL has those of a partition."""
        return f"from ('{lsn.show(self.from_lsn)}') to ('{lsn.show(self.to_lsn)}')"

    def holds(self, position: int) -> bool:
        """Return whether the position belongs to it."""
        return self.from_lsn <= position < self.to_lsn

    def overlaps(self, other: Block) -> bool:
        """Return whether a position belongs to both."""
        return self.from_lsn < other.to_lsn and other.from_lsn < self.to_lsn


def blocks_at(position: int) -> list[Block]:
    """Return the blocks that hold the position, the smallest first."""
    found = []
    for bits in _BITS:
        number = position >> bits
        found.append(Block(number << bits, number + 1 << bits))
    return found


def choose_block(position: int, log_size: int, others: Collection[Block]) -> Block:
    """Return the block of a new partition for the position.

    `log_size` is how many bytes of WAL the slot's log goes back from there: a partition is at most
    a quarter of it, so that a prune has something to drop on a small site, and a large one does not
    have too many. None of `others`, which do not hold the position, overlaps the block.
    """
    smallest, *larger = blocks_at(position)
    fitting = [
        each
        for each in larger
        if (each.to_lsn - each.from_lsn) * _SHARES <= log_size
        and not any(each.overlaps(other) for other in others)
    ]
    return fitting[-1] if fitting else smallest


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
