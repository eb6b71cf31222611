"""A TCP proxy in front of a server that can cut, hold and slow its connections, or pools them."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

from testkit.servers import free_port

_PIECE = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

_Pair = tuple[socket.socket, socket.socket]


class Proxy:
    """Passes the connections to its `port` on to the upstream port of this machine."""

    def __init__(self, upstream: int) -> None:
        self.port = free_port()
        self._upstream = upstream
        self._open = threading.Event()
        self._open.set()
        self._closed = threading.Event()
        self._delay = 0.0
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, name="listener", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self) -> int:
        """Reset every connection; return how many there were."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._drop(pair)
        return len(pairs)

    def blackhole(self) -> None:
        """Pass nothing on until `restore`, not even the end of a connection."""
        self._open.clear()

    def delay(self, seconds: float) -> None:
        """Delay each piece in both directions."""
        self._delay = seconds

    def restore(self) -> None:
        """Pass on what was held, and everything after it."""
        self._delay = 0.0
        self._open.set()

    def close(self) -> None:
        """End every connection and stop listening."""
        self._closed.set()
        self.restore()
        # Only a shutdown wakes the thread that accepts; closing would leave it waiting.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _login(self, client: socket.socket) -> bytes:
        """Return what the client logs in with, where that is not what it says itself."""
        return b""

    def _serve(self, client: socket.socket) -> None:
        self._hold()
        try:
            login = self._login(client)
            server = socket.create_connection(("127.0.0.1", self._upstream))
            server.sendall(login)
        except OSError:
            client.close()
            return
        pair = (client, server)
        with self._lock:
            self._pairs.add(pair)
        for source, sink in (pair, pair[::-1]):
            threading.Thread(target=self._pump, args=(source, sink, pair), daemon=True).start()
        if self._closed.is_set():
            self._drop(pair)

    def _pump(self, source: socket.socket, sink: socket.socket, pair: _Pair) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                self._hold()
                sink.sendall(piece)
        # While data is held, one end must not see that the other has closed.
        self._hold()
        self._drop(pair)

    def _hold(self) -> None:
        self._open.wait()
        if self._delay:
            self._closed.wait(self._delay)
            self._open.wait()

    def _drop(self, pair: _Pair) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


_PROTOCOL = 196608
_ENCRYPTION = (80877103, 80877104)
_TRACKED = (b"user", b"database", b"replication", b"client_encoding")


class Pooler(Proxy):
    """Drops what a client logs in with beside the names, as pgbouncer does for its sessions."""

    def _login(self, client: socket.socket) -> bytes:
        size, code = struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))
        while code in _ENCRYPTION:
            client.sendall(b"N")
            size, code = struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))
        words = client.recv(size - 8, socket.MSG_WAITALL).rstrip(b"\0").split(b"\0")
        pairs = zip(words[::2], words[1::2], strict=True)
        login = b"".join(b"%b\0%b\0" % pair for pair in pairs if pair[0] in _TRACKED) + b"\0"
        return struct.pack("!ii", len(login) + 8, _PROTOCOL) + login
