"""Messages in, rows for COPY out, cut only where a source transaction ends.

Pure: no driver, no thread, and the clock is given. One large transaction passes through without
being held in memory: its rows leave as they come, and only the cut waits for its commit.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from loader.capture import wal2json
from loader.capture.messages import Altered, Begin, Commit, Keepalive, Message
from loader.capture.wal2json import action
from loader.staging.layout import COLUMNS
from waltally import lsn

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)

_ROW_END = struct.Struct(">qici")
_ROW_END_NO_ACTION = struct.Struct(">qii")


@dataclass(frozen=True)
class Limits:
    """When a batch is full: at the first source commit after any of these.

    Rows pass through, so a larger batch takes no more memory; it waits less often for the disk.
    """

    rows: int = 200_000
    size: int = 128 * 1024 * 1024
    seconds: float = 1.0


class Batcher:
    """Turns messages into rows of COPY's binary format and says where they may be cut.

    A transaction that commits before `flushed_lsn`, the position of record, is stored already and
    is skipped if the server sends it again. Everything before `received_lsn` has arrived.
    """

    def __init__(
        self,
        slot: str,
        flushed_lsn: int,
        limits: Limits | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.flushed_lsn = flushed_lsn
        self.received_lsn = flushed_lsn
        self.rows = 0
        self.transactions = 0
        """How many source transactions the rows of the batch come from."""
        self.newest_commit_at: float | None = None
        """When the newest transaction with rows was committed, in seconds since 1970."""
        self.xids: set[int] = set()
        """All transactions, also those without rows, since the last batch was stored."""
        self.altered: list[tuple[Altered, int]] = []
        """What DDL did since then, each with its commit LSN."""
        self._size = 0
        self._limits = limits or Limits()
        self._clock = clock
        self._started = 0.0
        self._end_lsn: int | None = None
        self._begin: Begin | None = None
        self._ordinal = 0
        self._skips = False
        self._last_head = b""
        self._newest_lsn = 0
        name = slot.encode()
        self._slot_field = struct.pack(">hi", len(COLUMNS), len(name)) + name
        self._row_start = b""

    @property
    def in_transaction(self) -> bool:
        """Whether a source transaction has begun and not ended, so that no batch may end here."""
        return self._begin is not None

    @property
    def commit_lsn(self) -> int:
        """The commit LSN of the transaction that is open. Raises ValueError where none is."""
        if self._begin is None:
            raise ValueError("no transaction is open")
        return self._begin.commit_lsn

    @property
    def newest_lsn(self) -> int:
        """The commit LSN of the newest transaction that has begun; 0 where none has."""
        return self._newest_lsn

    @property
    def place(self) -> str:
        """Where the next change is, for the error about one that cannot be received."""
        if self._begin is None:
            return f"the first transaction that commits at or after {lsn.show(self.received_lsn)}"
        where = f"transaction {self._begin.xid}, which commits at {lsn.show(self.commit_lsn)}"
        if not self._ordinal:
            return f"the first change of {where}"
        table = b".".join(wal2json.names(self._last_head)).decode(errors="replace") or "a table"
        return f"change {self._ordinal + 1} of {where}, after a change of {table}"

    @property
    def is_full(self) -> bool:
        """Whether the batch should end at the next cut."""
        return bool(self.rows) and (
            self.rows >= self._limits.rows
            or self._size >= self._limits.size
            or self._clock() - self._started >= self._limits.seconds
        )

    def fits(self, message: Message) -> bool:
        """Say whether this message may join the batch; a begin far ahead in the WAL may not.

        The log has partitions only up to a position; see `end_before`.
        """
        if not self.rows or not isinstance(message, Begin) or self._end_lsn is None:
            return True
        return message.commit_lsn < self._end_lsn

    def end_before(self, position: int) -> None:
        """End the batch before the first transaction that commits at or after the position."""
        self._end_lsn = position

    def accept(self, message: Message) -> bytes:
        """Return the row that the message makes, empty where it makes none.

        Raises ValueError for a message that cannot follow the last one: the stream then has no
        whole transactions, and nothing of it may be stored.
        """
        if isinstance(message, bytes):
            return self._change(message)
        if isinstance(message, Begin):
            if self._begin is not None:
                raise ValueError("a transaction begins inside another")
            self._open(message)
        elif isinstance(message, Commit):
            if self._begin is None or self._begin.end_lsn != message.end_lsn:
                raise ValueError("a transaction ends that did not begin")
            if self._ordinal:
                self.transactions += 1
                self.newest_commit_at = self._begin.committed_seconds
            self._begin = None
            self.received_lsn = max(self.received_lsn, message.end_lsn)
        elif isinstance(message, Altered):
            if self._begin is not None and not self._skips:
                self.altered.append((message, self._begin.commit_lsn))
        elif isinstance(message, Keepalive) and self._begin is None:
            self.received_lsn = max(self.received_lsn, message.position)
        return b""

    def stored(self) -> None:
        """Note that everything up to `received_lsn` is durable: the next row begins a new batch."""
        if self._begin is not None:
            raise ValueError("a batch cannot end inside a transaction")
        self.flushed_lsn = self.received_lsn
        self.rows = 0
        self.transactions = 0
        self.xids.clear()
        self.altered.clear()
        self._size = 0

    def _open(self, begin: Begin) -> None:
        self._begin = begin
        self.xids.add(begin.xid)
        self._newest_lsn = begin.commit_lsn
        self._ordinal = 0
        self._skips = begin.commit_lsn < self.flushed_lsn
        if not self._skips:
            self._row_start = self._slot_field + struct.pack(
                ">iqiqiqi", 8, begin.commit_lsn, 8, begin.xid, 8, begin.committed_at, 8
            )

    def _change(self, payload: bytes) -> bytes:
        if self._begin is None:
            raise ValueError("a change comes outside a transaction")
        row: list[bytes] = []
        self.move_changes(deque((payload,)), row, 1)
        return b"".join(row)

    def move_changes(self, waiting: deque[Message], rows: list[bytes], room: int) -> int:
        """Move the changes that `waiting` begins with to the end of `rows`, as pieces of rows.

        Stops before a message that is no change, or when `room` bytes are used up. Return the
        bytes moved. The loader spends most of its time here.
        """
        if self._begin is None:
            return 0
        start, ordinal, skips = self._row_start, self._ordinal, self._skips
        first, moved, count, payloads = not self.rows, 0, 0, 0
        last = b""
        overhead = len(start) + _ROW_END.size
        with_action, without_action = _ROW_END.pack, _ROW_END_NO_ACTION.pack
        while waiting and moved < room:
            payload = waiting[0]
            if type(payload) is not bytes:
                break
            waiting.popleft()
            if skips:
                continue
            last = payload
            ordinal += 1
            count += 1
            size = len(payload)
            letter = action(payload)
            end = (
                with_action(ordinal, 1, letter, size)
                if letter
                else without_action(ordinal, -1, size)
            )
            rows += (start, end, payload)
            moved += size + overhead
            payloads += size
        if count and first:
            self._started = self._clock()
        if count:
            self._last_head = last[: wal2json.HEAD]
        self._ordinal = ordinal
        self._size += payloads
        self.rows += count
        return moved
