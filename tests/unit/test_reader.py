"""The reader hands over what it has read, then what broke it, and confirms what is stored."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from loader.capture import reader
from loader.capture.position import Position
from loader.capture.protocol import ProtocolError
from loader.capture.reader import SlotReader
from loader.capture.wal2json import Keepalive, Message


class Server:
    """A replication connection that has some bundles to send, and then ends the stream."""

    def __init__(self, *bundles: list[Any]) -> None:
        self.bundles = list(bundles)
        self.confirmed: list[int] = []
        self.is_asked = threading.Event()
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


def reading(server: Server, position: Position, *stages: Any) -> SlotReader:
    stream: Any = SimpleNamespace(
        replication=server,
        stages=stages,
        partitions=SimpleNamespace(names=SimpleNamespace(root_of={})),
        monitor=SimpleNamespace(seconds_without_answer=0.0),
        found=SimpleNamespace(status_seconds=10.0),
    )
    return SlotReader(stream, position)


def test_a_broken_stream_is_raised_after_what_came_before_it() -> None:
    server = Server([Keepalive(1, False)], [], [b"{}"])
    slot = reading(server, Position())
    slot.start()
    assert server.is_finished.wait(10)
    assert (slot.take(0), slot.take(0)) == ([Keepalive(1, False)], [b"{}"])
    with pytest.raises(ProtocolError, match="broken"):
        slot.take(0)
    slot.close()


def test_while_the_queue_is_full_what_is_stored_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_MOST_BYTES", 1)
    monkeypatch.setattr(reader, "_IDLE_WAIT", 0.01)
    server, position = Server([b"1"], [b"2"]), Position(5)
    slot = reading(server, position)
    slot.start()
    position.receive(9)
    position.store()
    while 9 not in server.confirmed:
        server.is_asked.wait(0.01)
    assert slot.take(10) == [b"1"]
    assert slot.take(10) == [b"2"]
    slot.close()


def test_the_stages_take_a_bundle_one_after_the_other() -> None:
    def twice(messages: list[Message]) -> list[Message]:
        return messages * 2

    def ended(messages: list[Message]) -> list[Message]:
        return [*messages, b"end"]

    slot = reading(Server([b"1"]), Position(), twice, ended)
    slot.start()
    assert slot.take(10) == [b"1", b"1", b"end"]
    slot.close()
