"""Any stream, cut in any way, makes the same rows: whole transactions, each once."""

from __future__ import annotations

import struct
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.capture.batch import Batch, Limits
from loader.capture.events import RunState
from loader.capture.pace import Pace
from loader.capture.position import Position
from loader.capture.wal2json import (
    Begin,
    Commit,
    Keepalive,
    Message,
    WholeTransactions,
    action,
)

SLOT = "s"
Row = tuple[int, int, int, bytes]


def transaction(commit_lsn: int, payloads: list[bytes]) -> list[Message]:
    begin = Begin(commit_lsn, commit_lsn + 8, commit_lsn % 1000, 0)
    return [begin, *payloads, Commit(commit_lsn + 8)]


def rows_of(data: bytes) -> list[Row]:
    """Read COPY's binary format back, as (commit LSN, xid, ordinal, payload)."""
    at, rows = 0, []
    while at < len(data):
        (count,) = struct.unpack_from(">h", data, at)
        at += 2
        fields = []
        for _ in range(count):
            (size,) = struct.unpack_from(">i", data, at)
            fields.append(data[at + 4 : at + 4 + max(size, 0)])
            at += 4 + max(size, 0)
        slot, commit, xid, _, ordinal, letter, payload = fields
        assert slot == SLOT.encode()
        assert letter == action(payload)
        numbers = [int.from_bytes(field, "big") for field in (commit, xid, ordinal)]
        rows.append((numbers[0], numbers[1], numbers[2], payload))
    return rows


def new_batch(position: Position, limits: Limits | None = None, room: int = 1 << 64) -> Batch:
    """Return an empty batch for a log that has room for so many bytes of WAL."""
    return Batch(SLOT, position, lambda at: at + room, lambda: 0.0, limits or Limits())


def drain(
    bundles: list[list[Message]], position: int, limits: Limits, room: int = 1 << 64
) -> tuple[list[Row], int]:
    """Store what arrives bundle by bundle as the loader does; return the rows and the position."""
    at = Position(position)
    batch = new_batch(at, limits, room)
    rows: list[Row] = []
    for bundle in bundles:
        waiting = deque(bundle)
        while waiting:
            batch.add(waiting)
            rows += rows_of(b"".join(batch.take_pieces()))
            assert batch.piece_size == 0
            if batch.ends:
                assert not batch.in_transaction
                at.store()
                batch = new_batch(at, limits, room)
    return rows, at.received


changes = st.binary(max_size=20).map(lambda b: b"{" + b) | st.just(b'{"action":"T","table":"a"}')
payloads = st.lists(changes, max_size=5)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[bytes]]]:
    steps = draw(st.lists(st.tuples(st.integers(16, 2**33), payloads), max_size=12))
    history, at = [], 16
    for step, changes in steps:
        history.append((at, changes))
        at += step
    return history


@given(histories(), st.data())
def test_any_cut_into_bundles_and_batches_stores_each_change_once(
    history: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    """What was stored before is passed over."""
    stored = data.draw(st.integers(0, len(history)))
    position = history[stored - 1][0] + 8 if stored else 0
    messages = [m for at, changes in history for m in transaction(at, changes)]
    bundles = []
    while messages:
        size = data.draw(st.integers(1, len(messages)))
        bundles.append(messages[:size])
        messages = messages[size:]
    limits = Limits(rows=data.draw(st.integers(1, 10)), size=data.draw(st.integers(1, 100)))
    rows, seen = drain(bundles, position, limits, room=data.draw(st.integers(1, 2**34)))
    assert rows == [
        (at, at % 1000, ordinal, payload)
        for at, changes in history[stored:]
        for ordinal, payload in enumerate(changes, 1)
    ]
    assert seen == (history[-1][0] + 8 if history else 0)


def test_what_commits_exactly_at_the_stored_position_is_new() -> None:
    """It begins where the record before it ends: that is not yet stored."""
    rows, _ = drain([transaction(100, [b"{}"])], 100, Limits())
    assert [row[0] for row in rows] == [100]


def added(position: Position, *messages: Message) -> Batch:
    batch = new_batch(position)
    batch.add(deque(messages))
    return batch


def test_a_keepalive_moves_the_position_forward_and_only_between_transactions() -> None:
    position = Position()
    batch = added(position, Keepalive(50, False), Keepalive(40, False))
    assert position.received == 50
    batch.add(deque([Begin(100, 108, 1, 0), Keepalive(99, True)]))
    assert (position.received, batch.in_transaction, batch.reply_wanted) == (50, True, True)
    batch.add(deque([Commit(108)]))
    assert position.received == 108


def test_what_is_no_stream_of_whole_transactions_is_refused() -> None:
    begun = Begin(1, 2, 3, 4)
    wrong: list[list[Message]] = [[b"{}"], [Commit(8)], [begun, begun], [begun, Commit(9)]]
    for messages in wrong:
        whole = WholeTransactions()
        with pytest.raises(ValueError, match="transaction"):
            for message in messages:
                whole.check(message)


def test_a_batch_ends_before_a_transaction_for_which_the_log_has_no_room_yet() -> None:
    batch = new_batch(Position(), room=100)
    left = deque([*transaction(50, [b"x"]), *transaction(149, [b"x"]), *transaction(150, [b"y"])])
    batch.add(left)
    assert (batch.rows, batch.ends, batch.in_transaction) == (2, True, False)
    assert left[0] == Begin(150, 158, 150, 0)


def test_a_position_is_confirmed_only_once_it_is_stored() -> None:
    position = Position(100)
    position.receive(200)
    assert (position.confirmed, position.stored, position.received) == (100, 100, 200)
    position.store()
    assert (position.confirmed, position.stored) == (200, 200)


def test_a_held_position_is_confirmed_once_its_record_has_come_back() -> None:
    position = Position(90)
    for received, record_end in ((100, 110), (110, 120), (120, 130)):
        position.receive(received)
        position.store(record_end)
        position.confirm_held()
    assert (position.confirmed, position.stored) == (110, 120)
    position.receive(130)
    position.confirm_held()
    assert position.confirmed == 120


def test_changes_gather_until_the_next_build_can_take_them() -> None:
    state = RunState()
    pace = Pace(state)
    assert pace.seconds_left(now=100) == 0, "nobody applies here"
    pace.note(changes=20, seconds=0.004)
    state.stored_at, state.apply_due_at = 100, 100.012
    assert pace.seconds_left(now=100.001) == pytest.approx(0.007)
    assert pace.seconds_left(now=101) == 0, "after a rest the first is taken"
    state.apply_due_at = 103
    assert pace.seconds_left(now=100) == pytest.approx(0.03), "never for long"
    pace.note(changes=5_000, seconds=0.1)
    assert pace.seconds_left(now=100) == 0, "a backlog is not held up"


def test_to_receive_only_up_to_a_position_takes_the_first_record_in() -> None:
    position = Position(100)
    assert position.to_receive(50) == 50
    position.hold(110)
    assert (position.to_receive(50), position.to_receive(200)) == (110, 200)
