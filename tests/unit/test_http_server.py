"""The port of metrics and probes outlives clients that vanish, and does not log them."""

from __future__ import annotations

import socket
import struct
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from loader.monitoring import http_server
from loader.monitoring.health import Answer
from testkit.commands import wait_until
from testkit.servers import free_port


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is served."""
    chosen = free_port()
    probes = {"/healthz": lambda: Answer(True, "alive")}
    with http_server.served("127.0.0.1", chosen, CollectorRegistry(), probes):
        yield chosen


def test_silent_clients_do_not_hold_their_threads(
    port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert http_server.Handler.timeout, "a client may be silent for ever"
    monkeypatch.setattr(http_server.Handler, "timeout", 0.1)
    before = threading.active_count()
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    wait_until(lambda: not any(client.recv(1) for client in held), "all are closed")
    wait_until(lambda: threading.active_count() <= before, "their threads end")
    for client in held:
        client.close()
    assert capfd.readouterr().err == ""


def test_a_client_that_resets_its_connection_is_not_logged(
    port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    client = socket.create_connection(("127.0.0.1", port))
    wait_until(lambda: threading.active_count() > before, "its thread starts")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    wait_until(lambda: threading.active_count() <= before, "its thread ends")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as found:
        assert found.read() == b"alive\n"
    assert capfd.readouterr().err == ""
