"""In what order messages, warnings and the end of the stream leave `receive`."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import psycopg
import pytest

from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.wal2json import Keepalive

NOTHING = (0, memoryview(b""))
END = (-1, memoryview(b""))

Arrival = list[tuple[int, memoryview] | str]
BROKEN: Arrival = []
"""Instead of arriving, the connection breaks."""


def data(payload: bytes) -> tuple[int, memoryview]:
    message = b"w" + bytes(24) + payload
    return len(message), memoryview(message)


class Scripted(ReplicationConnection):
    """Plays what libpq has buffered, and at each look into the socket what has come since.

    A text is a warning, which libpq hands over while it reads on.
    """

    def __init__(self, *arrivals: Arrival) -> None:
        self._arrivals = deque(arrivals)
        self._buffered: Arrival = []
        self._warnings = deque()
        self._ended = None
        self.looks = 0
        self._conn = SimpleNamespace(  # type: ignore[assignment]
            get_copy_data=self._get,
            consume_input=self._consume,
            get_result=lambda: SimpleNamespace(
                error_message=b"terminated\n", error_field=lambda _: b"57P01"
            ),
        )

    def _get(self, _is_async: int) -> tuple[int, memoryview]:
        while self._buffered:
            found = self._buffered.pop(0)
            if not isinstance(found, str):
                return found
            self._warnings.append(found)
        return NOTHING

    def _consume(self) -> None:
        self.looks += 1
        if self._arrivals:
            arrived = self._arrivals.popleft()
            if arrived is BROKEN:
                raise psycopg.OperationalError("closed\n")
            self._buffered.extend(arrived)


def test_everything_that_has_arrived_comes_at_once_until_the_socket_is_empty() -> None:
    connection = Scripted([data(b"a"), data(b"b")], [data(b"c")])
    assert connection.receive(1_000_000) == [b"a", b"b", b"c"]
    assert connection.looks == 3
    assert connection.receive(1_000_000) == []


def test_no_more_is_taken_than_asked_for() -> None:
    connection = Scripted([data(b"x" * 100) for _ in range(5)])
    assert len(connection.receive(250)) == 2
    assert len(connection.receive(1)) == 1
    assert len(connection.receive(1_000)) == 2


def test_a_keepalive_stands_in_its_place() -> None:
    alive = b"k" + (77).to_bytes(8, "big") + bytes(8) + b"\1"
    connection = Scripted([data(b"a"), (len(alive), memoryview(alive)), data(b"b")])
    assert connection.receive(1_000) == [b"a", Keepalive(77, wants_reply=True), b"b"]


def test_warnings_come_before_the_message_that_libpq_read_after_them() -> None:
    connection = Scripted([data(b"a"), "one", "two", data(b"b")])
    assert connection.receive(1_000) == [b"a", "one", "two", b"b"]


def test_a_warning_that_nothing_follows_does_not_wait() -> None:
    connection = Scripted([data(b"a"), "one"])
    assert connection.receive(1_000) == [b"a", "one"]


def test_what_came_before_the_end_is_returned_before_the_end_is_raised() -> None:
    connection = Scripted([data(b"a"), END])
    assert connection.receive(1_000) == [b"a"]
    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"^terminated$"):
            connection.receive(1_000)


def test_what_came_before_the_connection_broke_is_returned_first() -> None:
    connection = Scripted([data(b"a")], BROKEN)
    assert connection.receive(1_000) == [b"a"]
    with pytest.raises(ProtocolError, match=r"^closed$"):
        connection.receive(1_000)


def test_a_message_of_another_kind_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown replication message 0x7a"):
        Scripted([(1, memoryview(b"z"))]).receive(1_000)
