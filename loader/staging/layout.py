"""The shape of the change log: its columns, and which partition holds a position. Pure."""

from __future__ import annotations

PARTITION_BITS = 32
"""A partition of the change log spans 4 GiB of WAL: the upper half of the position names it."""

COLUMNS = ("slot_name", "commit_lsn", "xid", "committed_at", "ordinal", "action", "payload")
"""The columns of change_log in the order of `Batcher`'s rows; staged_at has its default."""


def partition_number(position: int) -> int:
    """Return the number of the partition that holds this commit LSN."""
    return position >> PARTITION_BITS


def partition_name(number: int) -> str:
    """Return the name of a partition's table."""
    return f"change_log_{number:08x}"


def partition_bounds(number: int) -> tuple[int, int]:
    """Return the first position that belongs to a partition, and the first of the next one."""
    return number << PARTITION_BITS, number + 1 << PARTITION_BITS
