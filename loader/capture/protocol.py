"""PostgreSQL's streaming replication protocol over libpq; all feedback is ours.

psycopg2's replication cursor confirms positions of keepalives by itself, also before anything
durable records them (docs/decisions/0006-replication-protocol.md). So this module speaks the few
messages that logical streaming needs, over psycopg's libpq wrapper.
Source: PostgreSQL documentation, "Streaming Replication Protocol".
"""

from __future__ import annotations

import select
import struct
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime

import psycopg
from psycopg import pq

from loader.capture.wal2json import Keepalive
from waltally import lsn
from waltally.tables import literal

_STATUS = struct.Struct(">cQQQqB")
_NOT_SHOWN = 0
_DATA, _KEEPALIVE = 0x77, 0x6B
_KEEPALIVE_BODY = struct.Struct(">QQB")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class ProtocolError(Exception):
    """The replication connection failed.

    `sqlstate` is the server's code, if it gave one, `major` its version where that matters.
    """

    def __init__(self, message: str, sqlstate: str | None = None, major: int | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.major = major


class ReplicationConnection:
    """One connection to the server's WAL sender."""

    def __init__(self, conninfo: str) -> None:
        """Connect with a libpq connection string that carries `replication=database`.

        Raises ProtocolError where the server cannot be reached or refuses us.
        """
        self._conn = pq.PGconn.connect(conninfo.encode())
        if self._conn.status != pq.ConnStatus.OK:
            message = self._error()
            self._conn.finish()
            raise ProtocolError(message)
        self._conn.notice_handler = self._note
        self._warnings: deque[str] = deque()
        self._ended: ProtocolError | None = None

    @property
    def address(self) -> dict[str, str]:
        """The server that answered, of all that the string may name, as libpq's keywords."""
        words = {"host": self._conn.host, "hostaddr": self._conn.hostaddr, "port": self._conn.port}
        return {word: value.decode() for word, value in words.items() if value}

    @property
    def server_version(self) -> int:
        """The server's version as server_version_num has it."""
        return self._conn.server_version

    def query(self, sql: str) -> list[tuple[str | None, ...]]:
        """Run one SQL or replication command and return its rows as text. Raises ProtocolError."""
        result = self._conn.exec_(sql.encode())
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise ProtocolError(self._error(), _sqlstate(result))
        return [
            tuple(
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in range(result.nfields)
            )
            for row in range(result.ntuples)
        ]

    def start(self, slot: str, position: int, options: Mapping[str, str]) -> None:
        """Start streaming the slot at the position. Raises ProtocolError, 55006 if it is in use."""
        words = ", ".join(f'"{name}" {literal(value)}' for name, value in options.items())
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn.show(position)} ({words})'
        result = self._conn.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            # The plugin is loaded here, and the name of its package contains the version.
            major = self._conn.server_version // 10_000
            raise ProtocolError(self._error(), _sqlstate(result), major)
        self._conn.nonblocking = 1

    def receive(self, size: int) -> list[bytes | Keepalive | str]:
        """Return what has arrived, in its order and up to about `size` bytes; empty where nothing.

        A data message comes back as its payload, a warning as its text, in its place. Raises
        ProtocolError where the stream ended, once everything before the end has been returned.
        """
        if self._ended is not None:
            raise self._ended
        messages: list[bytes | Keepalive | str] = []
        get, warnings = self._conn.get_copy_data, self._warnings
        has_looked = False
        try:
            while size > 0:
                length, data = get(1)
                # libpq hands warnings over while it reads up to the message that comes after.
                while warnings:
                    messages.append(warnings.popleft())
                if length == 0:
                    if has_looked:
                        break
                    self._conn.consume_input()
                    has_looked = True
                    continue
                has_looked = False
                if length < 0:
                    raise self._stream_end()
                size -= length
                messages.append(bytes(data[25:]) if data[0] == _DATA else _keepalive(data))
        except ProtocolError as error:
            self._ended = error
        except psycopg.Error as error:
            self._ended = self._broken(error)
        if self._ended is not None and not messages:
            raise self._ended
        return messages

    def wait(self, seconds: float) -> bool:
        """Wait until something arrives, at most so long; say if it did."""
        readable, _, _ = select.select([self._conn.socket], [], [], seconds)
        return bool(readable)

    def send_status(self, position: int, *, want_reply: bool = False) -> None:
        """Confirm that everything before the position is durable. Raises ProtocolError.

        Where `synchronous_standby_names` matches us (`*`), commits wait for a session that shows a
        flushed position. The second message hides it again; the slot keeps it. The server reads
        both at once. pg_basebackup hides its position in the same way.
        """
        since = datetime.now(UTC) - _EPOCH
        clock = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        self._put(
            _STATUS.pack(b"r", position, position, position, clock, False),
            _STATUS.pack(b"r", position, _NOT_SHOWN, position, clock, want_reply),
        )

    def finish(self) -> None:
        """Close the connection; the WAL sender ends with it."""
        self._conn.finish()

    def _note(self, notice: pq.abc.PGresult) -> None:
        if notice.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) == b"WARNING":
            text = notice.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
            self._warnings.append(text.decode(errors="replace"))

    def _put(self, *messages: bytes) -> None:
        if self._ended is not None:
            raise self._ended
        try:
            for message in messages:
                self._conn.put_copy_data(message)
            while self._conn.flush() == 1:
                readable, _, _ = select.select([self._conn.socket], [self._conn.socket], [], 1.0)
                if readable:
                    self._conn.consume_input()
        except psycopg.Error as error:
            raise self._broken(error) from error

    def _stream_end(self) -> ProtocolError:
        result = self._conn.get_result()
        if result is None:
            return ProtocolError("the server ended the stream")
        text = result.error_message.decode(errors="replace").strip()
        return ProtocolError(text or "the server ended the stream", _sqlstate(result))

    def _broken(self, error: psycopg.Error) -> ProtocolError:
        """Return why the stream broke; an error by which the server ended it has a code."""
        if not self._conn.is_busy() and (result := self._conn.get_result()) is not None:
            text = result.error_message.decode(errors="replace").strip()
            if text and (code := _sqlstate(result)):
                return ProtocolError(text, code)
        return ProtocolError(str(error).strip())

    def _error(self) -> str:
        return self._conn.error_message.decode(errors="replace").strip()


def _keepalive(data: memoryview) -> Keepalive:
    if data[0] != _KEEPALIVE:
        raise ProtocolError(f"the server sent an unknown replication message {data[0]:#x}")
    position, _, wants_reply = _KEEPALIVE_BODY.unpack_from(data, 1)
    return Keepalive(position, bool(wants_reply))


def _sqlstate(result: pq.abc.PGresult) -> str | None:
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    return code.decode() if code else None
