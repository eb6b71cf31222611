"""The shape of the change log: its columns, and which partition holds a position. Pure."""

from __future__ import annotations

PARTITION_BITS = 32
"""A partition of the change log spans 4 GiB of WAL: the upper half of the position names it."""

COLUMNS = ("slot_name", "commit_lsn", "xid", "committed_at", "ordinal", "action", "payload")
"""The columns of change_log in the order of `Batcher`'s rows; staged_at has its default."""


def partition_number(position: int) -> int:
    """Return the number of the partition that holds this commit LSN."""
    return position >> PARTITION_BITS
