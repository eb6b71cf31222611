"""The partitions of the change log: which one holds a position. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from waltally import lsn

COLUMNS = ("slot_name", "commit_lsn", "xid", "committed_at", "ordinal", "action", "payload")
"""The columns of change_log in the order of a batch's rows; staged_at has its default."""

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
    blocks = []
    for bits in _BITS:
        number = position >> bits
        blocks.append(Block(number << bits, number + 1 << bits))
    return blocks


def choose_block(position: int, log_size: int, others: Collection[Block]) -> Block:
    """Return the block of a new partition for the position.

    `log_size` is how many bytes of WAL the slot's log goes back from there: a partition is at most
    a quarter of it, so that a prune has something to drop on a small site, and a large one does not
    have too many. None of `others`, which do not hold the position, overlaps the block.
    """
    smallest, *larger = blocks_at(position)
    fitting = [
        block
        for block in larger
        if (block.to_lsn - block.from_lsn) * _SHARES <= log_size
        and not any(block.overlaps(other) for other in others)
    ]
    return fitting[-1] if fitting else smallest
