"""A proxy that lends a server's session to each transaction, as pgbouncer does in that mode."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import ExitStack, suppress

from testkit.proxy import Listener

_PIECE = 64 * 1024
_PROTOCOL = 196608
_ENCRYPTION = (80877103, 80877104)
_READY = b"Z\0\0\0\5I"
_TRACKED = ("user", "database", "replication", "client_encoding")


class Pooler(Listener):
    """Lends its sessions. It drops what the client logs in with beside the names."""

    def __init__(self, upstream: int) -> None:
        self._idle: dict[bytes, list[socket.socket]] = {}
        super().__init__(upstream)

    def close(self) -> None:
        """Stop listening and end the server's sessions."""
        super().close()
        for session in (each for pool in self._idle.values() for each in pool):
            session.close()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, struct.error):
            login = _login(client)
            session, greeting = self._open(login)
            pool = self._idle.setdefault(login, [])
            pool.append(session)
            client.sendall(greeting)
            while (asked := client.recv(_PIECE)) and asked[:1] != b"X":
                with ExitStack() as stack:
                    session = stack.enter_context(pool.pop() if pool else self._open(login)[0])
                    session.sendall(asked)
                    if _relay(client, session):
                        stack.pop_all()
                        pool.append(session)

    def _open(self, login: bytes) -> tuple[socket.socket, bytes]:
        """Return a session of the server, and what it says first."""
        session = socket.create_connection(("127.0.0.1", self._upstream))
        session.sendall(struct.pack("!ii", len(login) + 8, _PROTOCOL) + login)
        said = piece = session.recv(_PIECE)
        while piece and not said.endswith(_READY):
            piece = session.recv(_PIECE)
            said += piece
        return session, said


def _login(client: socket.socket) -> bytes:
    """Return what the client logs in with, without what is not tracked."""
    while True:
        length, code = struct.unpack("!ii", _read(client, 8))
        if code not in _ENCRYPTION:
            break
        client.sendall(b"N")
    words = _read(client, length - 8).rstrip(b"\0").split(b"\0")
    pairs = zip(words[::2], words[1::2], strict=True)
    kept = [name + b"\0" + value + b"\0" for name, value in pairs if name.decode() in _TRACKED]
    return b"".join(kept) + b"\0"


def _read(end: socket.socket, size: int) -> bytes:
    return end.recv(size, socket.MSG_WAITALL)


def _relay(client: socket.socket, session: socket.socket) -> bool:
    """Pass on both ways until a transaction ends; return whether the session can be lent again."""
    unread = b""
    while True:
        for end in select.select([client, session], [], [])[0]:
            piece = end.recv(_PIECE)
            if not piece:
                return False
            if end is client:
                session.sendall(piece)
                continue
            client.sendall(piece)
            unread += piece
            while len(unread) >= 5 and len(unread) > (size := struct.unpack("!i", unread[1:5])[0]):
                message, unread = unread[: size + 1], unread[size + 1 :]
                if message == _READY:
                    return True
