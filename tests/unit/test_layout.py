"""Partitions of the change log: whole at every position, and of a size that fits the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from loader.staging.partitions import Block, blocks_at, choose_block
from waltally import lsn

MB = 2**20
POSITIONS = some.integers(0, 2**64 - 1)


@given(POSITIONS)
def test_a_name_says_the_positions(position: int) -> None:
    for block in blocks_at(position):
        assert block.holds(position)
        assert block.holds(block.from_lsn)
        assert not block.holds(block.to_lsn)
        assert Block.named(block.name) == block


def test_the_digits_that_all_positions_share_are_the_name() -> None:
    for position, name, size in (
        ("5/0", "change_log_0000000500", 16 * MB),
        ("5/FFFFFFFF", "change_log_00000005f", 256 * MB),
        ("1A2B/C3D4E5F6", "change_log_00001a2b", 4096 * MB),
    ):
        block = Block.named(name)
        assert block in blocks_at(lsn.parse(position))
        assert block.to_lsn - block.from_lsn == size
    for name in ("change_log", "change_log_0000005", "change_log_0000000G", "x"):
        with pytest.raises(ValueError, match="not the name of a partition"):
            Block.named(name)


@given(
    some.integers(2**40, 2**60),
    some.integers(-(2**40), 2**45),
    some.lists(some.integers(-(2**32), 2**32), max_size=5),
)
def test_a_new_partition_overlaps_no_other(position: int, size: int, near: list[int]) -> None:
    others = [
        each for away in near for each in blocks_at(position + away) if not each.holds(position)
    ]
    block = choose_block(position, size, others)
    assert block.holds(position)
    assert not any(block.overlaps(other) for other in others)
    span = block.to_lsn - block.from_lsn
    assert span == 16 * MB or span * 4 <= size


def test_a_longer_log_goes_on_in_larger_partitions() -> None:
    spans = {0: 16, 1023: 16, 1024: 256, 16_383: 256, 16_384: 4096, 10**9: 4096}
    for log_size, span in spans.items():
        block = choose_block(lsn.parse("5/0"), log_size * MB, ())
        assert block.to_lsn - block.from_lsn == span * MB
