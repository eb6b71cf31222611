"""One try at following the slot: receive, add to the batch, store, confirm."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from threading import Event

from loader.capture.batch import COPY_HEADER, COPY_TRAILER, Batch
from loader.capture.events import Committed, Notify, RunState, ignore
from loader.capture.pace import Idle, Pace
from loader.capture.protocol import ProtocolError
from loader.capture.protocol_errors import protocol_error
from loader.capture.source_monitor import Look
from loader.capture.stream import Stream
from loader.capture.target_news import TargetNews
from loader.capture.wal2json import Message
from loader.source.remedies import RENEW
from loader.staging.logged_tables import unfinished
from waltally import failpoints
from waltally.errors import (
    CannotConnect,
    EncodingUnfit,
    Interrupted,
    LoaderError,
    RowTooLarge,
    unexpected,
)
from waltally.settings import Settings

log = logging.getLogger("loader")

_WAIT = 0.25
_GRACE_SECONDS = 0.5
"""How long a stopping loader waits for the end of a transaction, to keep a short one."""


class Session:
    """Follows the slot until stopped, until a position, or until something breaks.

    Its `Stream` has opened and judged what it works with: the change log, the position, and the
    reader, which another thread fills. `followed` there looks after tables that DDL has changed.
    """

    def __init__(
        self, settings: Settings, stop: Event, run_state: RunState, notify: Notify = ignore
    ) -> None:
        """Open and judge everything. Raises LoaderError; the slot is then as it was."""
        self._slot = settings.slot
        self._stop = stop
        self._run_state = run_state
        self._notify = notify
        self._stream = stream = Stream(settings, run_state.check_encoding_to)
        self._log = stream.log
        self._reader = stream.reader
        self._position = run_state.position = stream.position
        run_state.stored_at = time.monotonic()
        self._pace = Pace(run_state)
        self._idle = Idle(run_state)
        self._news = TargetNews(stream.log, stream.registration.models_version)
        self._received: deque[Message] = deque()
        self._batch = self._next_batch()
        self._stop_seen = 0.0
        self._look: Look | None = None
        """That of the last store."""
        self._unseen: deque[tuple[int, set[int]]] = deque()
        """Batches with transactions that no look has seen: where each begins, and all of its."""

    @property
    def outdated(self) -> str:
        """Why another session has to follow other tables; empty where nothing has changed."""
        if self._news.models_version != self._stream.registration.models_version:
            return "dbt has changed what is to be followed"
        return self._stream.outdated

    def follow(self, until: int | None) -> None:
        """Store what comes until the stop event is set or everything before `until` is stored.

        Ends early where it is `outdated`: a new session then follows the other tables. Raises
        LoaderError where either side breaks; what was not committed comes again.
        """
        try:
            self._follow(until)
        except ProtocolError as error:
            raise self._with_row(protocol_error(error, self._slot)) from error
        except ValueError as error:
            raise LoaderError(f"The slot did not send a stream of wal2json: {error}") from error
        except LoaderError as error:
            if isinstance(self._reader.failure, CannotConnect):
                # It has cut the connection that this one broke on.
                raise self._reader.failure from error
            raise self._with_row(error) from error.__cause__
        except Exception as error:
            log.debug("the session broke", exc_info=error)
            raise unexpected(error) from error

    def close(self) -> None:
        """Free the slot and close the target."""
        self._run_state.open_since = None
        self._stream.close()

    def _follow(self, until: int | None) -> None:
        position = self._position
        if until is not None:
            # Or a slot that is only ever followed up to a position would never be confirmed.
            until = position.to_receive(until)
        while not self._is_done(until):
            self._reader.raise_if_over()
            self._receive()
            self._batch.add(self._received)
            if self._batch.rows:
                self._copy()
            if self._is_due():
                self._store()
            position.confirm_held()
        is_newer = position.received > position.stored
        if is_newer and not self._batch.in_transaction and not self._stream.followed.has_refused:
            self._store()

    def _is_done(self, until: int | None) -> bool:
        batch = self._batch
        if self._stream.followed.has_refused:
            return True
        if self._stop.is_set():
            return self._gives_up() or not batch.in_transaction
        if batch.rows:
            return False
        # In the middle of a transaction nothing is stored yet: the new session begins before it.
        return bool(self.outdated) or (until is not None and self._position.received >= until)

    def _receive(self) -> bool:
        """Wait for messages where none is left; return whether there are some."""
        batch, stream = self._batch, self._stream
        if not batch.rows:
            self._run_state.wal_end = stream.monitor.answer.wal_end
            self._stop.wait(self._pace.seconds_left(time.monotonic()))
        if not self._received:
            can_end = batch.rows and not batch.in_transaction
            self._received.extend(self._reader.take(0.0 if can_end else _WAIT))
        return bool(self._received)

    def _copy(self) -> None:
        """Copy the batch into the log while it comes."""
        self._run_state.open_since = self._batch.started
        try:
            self._log.append(self._pieces())
        except EncodingUnfit as error:
            raise self._with_encoding_check(error) from error

    def _pieces(self) -> Iterator[bytes]:
        """Yield the batch's rows as they come, until it ends, nothing comes, or it is given up."""
        batch = self._batch
        yield COPY_HEADER
        while True:
            if batch.piece_size:
                yield from batch.take_pieces()
            has_come = not batch.ends and self._receive()
            if not has_come and (not batch.in_transaction or self._reader.is_over):
                break
            if self._gives_up():
                break
            batch.add(self._received)
        yield COPY_TRAILER

    def _gives_up(self) -> bool:
        """Return whether a transaction does not end soon enough, so that it would delay a stop."""
        if not self._stop.is_set():
            return False
        self._stop_seen = self._stop_seen or time.monotonic()
        return time.monotonic() - self._stop_seen >= _GRACE_SECONDS

    def _is_due(self) -> bool:
        """Return whether to store what has come."""
        batch, position = self._batch, self._position
        if batch.in_transaction:
            return False
        if batch.rows:
            return True
        if self._idle.is_over(time.monotonic(), self._stream.monitor.answer.holds_much):
            return True
        # A server that shuts down waits until everything is confirmed, and has no timeout while we
        # answer: an idle loader would keep it running for ever. If the target is shutting down too,
        # storing fails.
        is_asked = batch.reply_wanted or self._news.is_awaited
        if is_asked and position.received > position.stored:
            return True
        if self._news.is_awaited and self._stream.monitor.look != self._look:
            return True
        self._news.look_if_due()
        return False

    def _store(self) -> None:
        """Move the position of record with the rows, or alone, and let it be confirmed."""
        stream, position = self._stream, self._position
        batch, run_state = self._batch, self._run_state
        if not stream.followed.note(batch, self._stop):
            self._log.rollback()
            return
        since = run_state.open_since = run_state.open_since or time.monotonic()
        moved = (position.stored, position.received, batch.rows, self._seen())
        models_version = self._log.commit_position(*moved)
        run_state.open_since = None
        # In this order: a position that is confirmed before it is committed is lost in a crash.
        failpoints.reach("after-commit")
        position.store(self._log.wal_position() if stream.confirms_late else None)
        self._batch = self._next_batch()
        self._news.note(models_version)
        run_state.stored_at = now = time.monotonic()
        self._pace.note(batch.rows, now - since)
        if stream.writes_own_wal and not batch.rows:
            self._idle.own_wal_end = self._log.wal_position()
        # Only now: a build that starts earlier would not see the batch.
        run_state.changes += batch.rows
        run_state.batches += batch.rows > 0
        run_state.newest_commit_at = batch.newest_commit_at or run_state.newest_commit_at
        self._notify(Committed(batch.rows, batch.transactions, now - since))

    def _seen(self) -> int:
        """Return up to where the tables' columns are known to be what the session began with.

        A commit is in the stream before any catalog shows what it did, and may wait in between.
        """
        self._look = look = self._stream.monitor.look
        if self._batch.xids:
            self._unseen.append((self._position.stored, self._batch.xids))
        while self._unseen and not unfinished(look.snapshot, self._unseen[0][1]):
            self._unseen.popleft()
        return min(look.wal_end, self._unseen[0][0]) if self._unseen else look.wal_end

    def _next_batch(self) -> Batch:
        return Batch(self._slot, self._position, self._log.ensure_partitions, time.monotonic)

    def _with_row(self, error: LoaderError) -> LoaderError:
        """Add to the error for a row that is too large where the row is, and how to go on."""
        if not isinstance(error, RowTooLarge):
            return error
        return RowTooLarge(
            f"{error}. The row is {self._batch.where_next}",
            f"{RENEW}: the new slot begins after this transaction, and the seed counts its rows",
        )

    def _with_encoding_check(self, error: EncodingUnfit) -> LoaderError:
        """Have the batch sent again and each change checked, because COPY names no row."""
        newest = self._batch.newest_lsn
        if self._run_state.check_encoding_to >= newest:
            return error
        self._run_state.check_encoding_to = newest
        return Interrupted(
            f"{error}; its changes are now checked one by one",
            "nothing; what cannot be stored as text is kept in hexadecimal and rejected",
        )
