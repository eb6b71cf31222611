"""What the stream hands over, in which order, and what it confirms."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from loader.capture.position import Position
from loader.capture.protocol import ProtocolError
from loader.capture.reader import SlotReader
from loader.capture.wal2json import Keepalive
from loader.staging.logged_tables import (
    ALL,
    Fingerprint,
    Followed,
    Gap,
    after_gap,
    fingerprint_gap,
    renewed,
)
from testkit.commands import wait_until
from waltally.limits import limits
from waltally.tables import Table


class Server:
    """A replication connection that has some bundles to send, and then ends the stream."""

    def __init__(self, *bundles: list[Any]) -> None:
        self.bundles = list(bundles)
        self.confirmed: list[int] = []
        self.is_finished = threading.Event()

    def receive(self, size: int) -> list[Any]:
        if not self.bundles:
            raise ProtocolError("broken")
        return self.bundles.pop(0)

    def send_status(self, position: int, *, want_reply: bool = False) -> None:
        self.confirmed.append(position)

    def wait(self, seconds: float) -> bool:
        return True

    def finish(self) -> None:
        self.is_finished.set()


def reading(server: Any, position: Position, *stages: Any) -> SlotReader:
    monitor: Any = SimpleNamespace(seconds_without_answer=0.0)
    return SlotReader(server, position, monitor, stages, {}, status_seconds=10.0)


def test_a_broken_stream_is_raised_after_what_came_before_it() -> None:
    server = Server([Keepalive(1, False)], [], [Keepalive(2, False)])
    slot = reading(server, Position())
    slot.start()
    assert server.is_finished.wait(10)
    assert (slot.take(0), slot.take(0)) == ([Keepalive(1, False)], [Keepalive(2, False)])
    assert (slot.is_over, slot.take(0), slot.is_over) == (False, [], True)
    with pytest.raises(ProtocolError, match="broken"):
        slot.raise_if_over()
    slot.close()


def test_while_the_queue_is_full_what_is_stored_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "queue_bytes", 1)
    monkeypatch.setattr(limits, "queue_wait", 0.01)
    server, position = Server([Keepalive(1, False)], [Keepalive(2, False)]), Position(5)
    slot = reading(server, position)
    slot.start()
    position.receive(9)
    position.store()
    wait_until(lambda: 9 in server.confirmed, "what is stored is confirmed", seconds=20)
    assert slot.take(10) == [Keepalive(1, False)]
    assert slot.take(10) == [Keepalive(2, False)]
    slot.close()


A, B = Table("public", "a"), Table("public", "b")


def test_what_stays_keeps_its_position_and_what_goes_has_gap() -> None:
    before: Followed = {}
    for kept, position in (
        ({A: None}, 0x10),
        ({A: None, B: None}, 0x20),
        ({A: frozenset({"x"})}, 0x30),
        ({A: frozenset({"x", "y"}), B: frozenset({"z"})}, 0x40),
        ({A: None, B: None}, 0x50),
    ):
        before = renewed(before, kept, position)
    assert before == {
        A: {"x": 0x10, "y": 0x40, ALL: 0x50},
        B: {"z": 0x40, ALL: 0x50},
    }


def test_a_later_position_is_kept_and_a_table_may_begin_anew_at_one_of_its_own() -> None:
    named_like_all = {A: frozenset({"*", "x"})}
    assert renewed({}, named_like_all, 0x10) == {A: {"x": 0x10}}
    later = renewed({A: {"x": 0x30}}, {A: frozenset({"x", "y"})}, 0x20)
    assert later == {A: {"x": 0x30, "y": 0x20}}
    before = {A: {ALL: 0x10}, B: {ALL: 0x10}}
    found = renewed(before, {A: None, B: frozenset({"x"})}, 0x20, {A: 0x30, B: 0x31})
    assert found == {A: {ALL: 0x30}, B: {"x": 0x31}}
    followed = {A: {"x": 0x10, ALL: 0x30}, B: {ALL: 0x10}}
    gap = Gap(0x20, "was altered")
    assert after_gap(followed, A, gap) == {A: {"x": 0x20, ALL: 0x30}, B: {ALL: 0x10}}


def test_a_gap_in_one_column_stays_when_other_columns_are_followed_or_all() -> None:
    gap = Gap(0x50, "was altered", frozenset({"x"}))
    followed = after_gap({A: {ALL: 0x10}}, A, gap)
    assert followed == {A: {"x": 0x50, ALL: 0x10}}
    assert renewed(followed, {A: None}, 0x90) == followed
    named = renewed(followed, {A: frozenset({"x", "y"})}, 0x90)
    assert named == {A: {"x": 0x50, "y": 0x10}}
    assert renewed(named, {A: None}, 0x90) == {A: {"x": 0x50, "y": 0x10, ALL: 0x90}}


def test_a_label_has_to_keep_its_name_and_others_may_come() -> None:
    cases: tuple[tuple[Fingerprint, Fingerprint, set[str]], ...] = (
        ({}, {"x": {"1": "a"}}, set()),
        ({"x": {"1": "a"}}, {"x": {"1": "a", "2": "b"}}, set()),
        ({"x": {"1": "a"}, "y": {"1": "a"}}, {"y": {"1": "a"}}, set()),
        ({"x": {"1": "a", "2": "b"}, "y": {"7": "a"}}, {"x": {"1": "b"}, "y": {"7": "a"}}, {"x"}),
        ({"x": {"1": "a"}}, {"x": {"3": "a"}}, {"x"}),
        ({"x": {"1": "a", "number": "2"}}, {"x": {"number": "2"}}, set()),
        ({"x": {"number": "2", "type": "real"}}, {"x": {"number": "2"}}, {"x"}),
        ({"x": {"digits": "9"}}, {"x": {"digits": "10"}}, set()),
        ({"x": {"digits": "10"}}, {"x": {"digits": "9"}}, {"x"}),
        ({"": {"oid": "1"}, "x": {"number": "2"}}, {}, set()),
        # Where the table itself is another one, all its columns are.
        ({"": {"oid": "1"}, "x": {"1": "a"}}, {"": {"oid": "2"}, "x": {"1": "b"}}, {""}),
    )
    for before, now, columns in cases:
        gap = fingerprint_gap(before, now, 0x10)
        assert (set() if gap is None else gap.columns or {""}) == columns
        assert gap is None or gap.from_lsn == 0x11


PROGRAM = """
import signal
from loader.verbs.run import stop_event

with stop_event(signal.SIGALRM) as stop:
    for number in range(300):
        stop.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 1e-7)
        while not stop.wait(0):
            pass
print("stopped each time")
"""


def test_a_signal_in_the_middle_of_a_wait_stops_the_loader() -> None:
    """The program is nearly always inside `Event.wait`, often with its lock held."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "stopped each time\n", done.stderr
