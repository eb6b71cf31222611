"""Messages in, rows for COPY out, cut only where a source transaction ends.

Pure: no driver, no thread, and the clock is given. One large transaction passes through without
being held in memory: its rows leave as they come, and only the cut waits for its commit.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from loader.capture import wal2json
from loader.capture.position import Position
from loader.capture.wal2json import Altered, Begin, Commit, Message, action
from loader.staging.partitions import COLUMNS
from waltally import lsn

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)

_FOREVER = 1 << 64
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


@dataclass
class Batch:
    """What has come since the last batch was stored."""

    rows: int = 0
    size: int = 0
    transactions: int = 0
    """How many source transactions the rows come from."""
    started: float = 0.0
    """When the first row came."""
    newest_commit_at: float | None = None
    """When the newest transaction with rows was committed, in seconds since 1970."""
    xids: set[int] = field(default_factory=set)
    """All transactions, also those without rows."""
    altered: list[tuple[Altered, int]] = field(default_factory=list)
    """What DDL did, each with its commit LSN."""
    end_lsn: int = _FOREVER
    """The batch ends before the first transaction that commits here or later.

    The log has partitions only up to a position.
    """


class Batcher:
    """Turns messages into rows of COPY's binary format and says where they may be cut.

    A transaction that commits before the stored position is skipped if the server sends it again.
    """

    def __init__(
        self,
        slot: str,
        position: Position,
        limits: Limits | None = None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.batch = Batch()
        self.newest_lsn = 0
        """The commit LSN of the newest transaction that has begun; 0 where none has."""
        self._position = position
        self._limits = limits or Limits()
        self._clock = clock
        self._begin: Begin | None = None
        self._ordinal = 0
        self._skips = False
        self._last_head = b""
        name = slot.encode()
        self._slot_field = struct.pack(">hi", len(COLUMNS), len(name)) + name
        self._row_start = b""

    @property
    def in_transaction(self) -> bool:
        """Whether a source transaction has begun and not ended, so that no batch may end here."""
        return self._begin is not None

    @property
    def place(self) -> str:
        """Where the next change is, for the error about one that cannot be received."""
        if self._begin is None:
            received = lsn.show(self._position.received)
            return f"the first transaction that commits at or after {received}"
        begin = self._begin
        where = f"transaction {begin.xid}, which commits at {lsn.show(begin.commit_lsn)}"
        if not self._ordinal:
            return f"the first change of {where}"
        table = b".".join(wal2json.names(self._last_head)).decode(errors="replace") or "a table"
        return f"change {self._ordinal + 1} of {where}, after a change of {table}"

    @property
    def is_full(self) -> bool:
        """Whether the batch should end at the next cut."""
        batch, limits = self.batch, self._limits
        return bool(batch.rows) and (
            batch.rows >= limits.rows
            or batch.size >= limits.size
            or self._clock() - batch.started >= limits.seconds
        )

    def fits(self, message: Message) -> bool:
        """Say whether this message may join the batch; a begin far ahead in the WAL may not."""
        if not self.batch.rows or not isinstance(message, Begin):
            return True
        return message.commit_lsn < self.batch.end_lsn

    def accept(self, message: Message) -> bytes:
        """Return the row that the message makes, empty where it makes none.

        Raises ValueError for a message that cannot follow the last one: the stream then has no
        whole transactions, and nothing of it may be stored.
        """
        if isinstance(message, bytes):
            if self._begin is None:
                raise ValueError("a change comes outside a transaction")
            row: list[bytes] = []
            self.move_changes(deque((message,)), row, 1)
            return b"".join(row)
        if isinstance(message, Begin):
            if self._begin is not None:
                raise ValueError("a transaction begins inside another")
            self._open(message)
        elif isinstance(message, Commit):
            if self._begin is None or self._begin.end_lsn != message.end_lsn:
                raise ValueError("a transaction ends that did not begin")
            if self._ordinal:
                self.batch.transactions += 1
                self.batch.newest_commit_at = self._begin.committed_seconds
            self._begin = None
            self._position.receive(message.end_lsn)
        elif isinstance(message, Altered):
            if self._begin is not None and not self._skips:
                self.batch.altered.append((message, self._begin.commit_lsn))
        elif self._begin is None:
            self._position.receive(message.position)
        return b""

    def start_next(self) -> Batch:
        """Begin a new batch and return the one that is stored."""
        if self._begin is not None:
            raise ValueError("a batch cannot end inside a transaction")
        stored, self.batch = self.batch, Batch()
        return stored

    def _open(self, begin: Begin) -> None:
        self._begin = begin
        self.batch.xids.add(begin.xid)
        self.newest_lsn = begin.commit_lsn
        self._ordinal = 0
        self._skips = begin.commit_lsn < self._position.stored
        if not self._skips:
            self._row_start = self._slot_field + struct.pack(
                ">iqiqiqi", 8, begin.commit_lsn, 8, begin.xid, 8, begin.committed_at, 8
            )

    def move_changes(self, waiting: deque[Message], rows: list[bytes], room: int) -> int:
        """Move the changes that `waiting` begins with to the end of `rows`, as pieces of rows.

        Stops before a message that is no change, or when `room` bytes are used up. Return the
        bytes moved. The loader spends most of its time here.
        """
        if self._begin is None:
            return 0
        start, ordinal, skips = self._row_start, self._ordinal, self._skips
        moved, count, payloads = 0, 0, 0
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
        batch = self.batch
        if count:
            self._last_head = last[: wal2json.HEAD]
            batch.started = batch.started if batch.rows else self._clock()
        self._ordinal = ordinal
        batch.size += payloads
        batch.rows += count
        return moved
