"""The rows for COPY that came since the last batch was stored. Pure: no driver, no thread.

A batch ends only where a source transaction ends. Its rows leave in pieces as they come, so that a
large transaction takes no more memory than a small one: only the end waits for its commit.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loader.capture import wal2json
from loader.capture.position import Position
from loader.capture.wal2json import Begin, Commit, Message, action
from loader.staging.partitions import COLUMNS
from waltally import lsn

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)

_ROW_END = struct.Struct(">qici")
_ROW_END_NO_ACTION = struct.Struct(">qii")
_LARGE = 1024 * 1024
"""libpq's buffer grows to the largest part that it gets, and stays so large."""


@dataclass(frozen=True)
class Limits:
    """When a batch is full: at the first source commit after any of these.

    Rows pass through, so a larger batch takes no more memory; it waits less often for the disk.
    """

    rows: int = 200_000
    size: int = 128 * 1024 * 1024
    seconds: float = 1.0


_LIMITS = Limits()


class Batch:
    """Takes messages and makes rows of COPY's binary format of the changes among them.

    A transaction that commits before the stored position is skipped: the server sent it again.
    """

    def __init__(
        self,
        slot: str,
        position: Position,
        make_room: Callable[[int], int],
        clock: Callable[[], float],
        limits: Limits = _LIMITS,
    ) -> None:
        """`make_room` gets the commit LSN of the first row and returns where its partition ends.

        A transaction that commits there or later belongs to the next batch.
        """
        self.rows = 0
        self.size = 0
        self.transactions = 0
        """How many source transactions the rows come from."""
        self.started = 0.0
        """When the first row came."""
        self.newest_commit_at: float | None = None
        """When the newest transaction with rows was committed, in seconds since 1970."""
        self.newest_lsn = 0
        """The commit LSN of the newest transaction that has begun; 0 where none has."""
        self.xids: set[int] = set()
        """All transactions, also those without rows."""
        self.ends = False
        """Whether the next message belongs to the next batch."""
        self.reply_wanted = False
        """Whether the last keepalive asked for our position."""
        self.piece_size = 0
        """How many bytes the next piece has."""
        self._piece: list[bytes] = []
        self._position = position
        self._make_room = make_room
        self._room_end = 0
        self._clock = clock
        self._limits = limits
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
    def is_full(self) -> bool:
        """Whether the batch should end at the next commit."""
        limits = self._limits
        return bool(self.rows) and (
            self.rows >= limits.rows
            or self.size >= limits.size
            or self._clock() - self.started >= limits.seconds
        )

    @property
    def where_next(self) -> str:
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

    def add(self, messages: deque[Message]) -> None:
        """Take messages of whole transactions until none is left or the batch ends."""
        while messages and not self.ends:
            message = messages[0]
            if isinstance(message, bytes):
                self._add_changes(messages)
                continue
            if isinstance(message, Begin):
                if self.rows and message.commit_lsn >= self._room_end:
                    self.ends = True
                    return
                self._begin_transaction(message)
            elif isinstance(message, Commit):
                self._end_transaction(message)
                self.ends = self.is_full
            else:
                self.reply_wanted = message.wants_reply
                if self._begin is None:
                    self._position.receive(message.position)
            messages.popleft()

    def take_pieces(self) -> Iterator[bytes]:
        """Yield the rows that came since the last call, in parts of which none is empty.

        A large change is not copied: it may be as large as PostgreSQL's largest value.
        """
        rows, size = self._piece, self.piece_size
        self._piece, self.piece_size = [], 0
        if size <= _LARGE:
            yield b"".join(rows)
            return
        for part in rows:
            for start in range(0, len(part), _LARGE):
                yield part[start : start + _LARGE]

    def _begin_transaction(self, begin: Begin) -> None:
        self._begin = begin
        self.xids.add(begin.xid)
        self.newest_lsn = begin.commit_lsn
        self._ordinal = 0
        self._skips = begin.commit_lsn < self._position.stored
        if not self._skips:
            # Each value after its length: slot, commit_lsn, xid, committed_at, then the ordinal.
            self._row_start = self._slot_field + struct.pack(
                ">iqiqiqi", 8, begin.commit_lsn, 8, begin.xid, 8, begin.committed_at, 8
            )

    def _end_transaction(self, commit: Commit) -> None:
        if self._begin is not None and self._ordinal:
            self.transactions += 1
            self.newest_commit_at = self._begin.committed_seconds
        self._begin = None
        self._position.receive(commit.end_lsn)

    def _add_changes(self, messages: deque[Message]) -> None:
        """Take the changes that `messages` begins with. The loader spends most of its time here."""
        assert self._begin is not None, "WholeTransactions lets none through"
        if self._skips:
            while messages and type(messages[0]) is bytes:
                messages.popleft()
            return
        if not self.rows:
            self.started = self._clock()
            self._room_end = self._make_room(self._begin.commit_lsn)
        start, ordinal, piece = self._row_start, self._ordinal, self._piece
        with_action, without_action = _ROW_END.pack, _ROW_END_NO_ACTION.pack
        payload, size = b"", 0
        while messages and type(messages[0]) is bytes:
            payload = messages.popleft()  # type: ignore[assignment]
            ordinal += 1
            length = len(payload)
            letter = action(payload)
            end = (
                with_action(ordinal, 1, letter, length)
                if letter
                else without_action(ordinal, -1, length)
            )
            piece += (start, end, payload)
            size += length
        count = ordinal - self._ordinal
        self._last_head = payload[: wal2json.HEAD]
        self._ordinal = ordinal
        self.rows += count
        self.size += size
        self.piece_size += size + count * (len(start) + _ROW_END.size)
