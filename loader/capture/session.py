"""One try at following the slot: stores batch after batch and confirms what is stored."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from threading import Event

from loader.capture.batches import Batcher
from loader.capture.copy_rows import CopyRows, Stopped
from loader.capture.events import Committed, Notify, RunState, ignore
from loader.capture.position import Position
from loader.capture.protocol import ProtocolError, protocol_error
from loader.capture.reader import SlotReader
from loader.capture.source_monitor import MUCH_WAL
from loader.capture.stream import Stream, open_stream
from loader.source.slot import RENEW
from loader.staging.change_log import ChangeLog
from waltally import failpoints
from waltally.errors import EncodingUnfit, Interrupted, LoaderError, RowTooLarge, unexpected
from waltally.settings import Settings

log = logging.getLogger("loader")

_WAIT = 0.25
_IDLE_SECONDS = 3.0
_IDLE_BYTES = 1024
_LOOK_SECONDS = 0.25
_FEW_CHANGES = 1_000
_LONGEST_GATHERING = 0.03


class Session:
    """Follows the slot until stopped, until a position, or until something breaks."""

    def __init__(
        self, settings: Settings, stop: Event, run_state: RunState, notify: Notify = ignore
    ) -> None:
        """Open and check everything. Raises LoaderError; the slot is then as it was."""
        self._notify = notify
        self._stop = stop
        self._run_state = run_state
        self._slot = settings.slot
        with ExitStack() as resources:
            self._log = ChangeLog(settings)
            resources.callback(self._log.close)
            stream = open_stream(settings, self._log, run_state.check_encoding_to, resources)
            self._stream = stream
            self._position = run_state.position = Position(stream.position_lsn)
            run_state.stored_at = time.monotonic()
            self._waits_for_standbys = self._hold_last_record()
            self._batcher = Batcher(settings.slot, self._position, clock=time.monotonic)
            reader = SlotReader(stream, self._position)
            self._rows = CopyRows(reader.take, self._batcher, stop)
            self._pace = Pace(run_state)
            self._idle = Idle(stream, run_state)
            self._target = TargetNews(self._log, stream.registration.number)
            self._timeline = stream.found.timeline
            self._has_other_partitions = False
            # Last, so that it is closed first: then the monitor sees to it that the slot is free.
            resources.callback(reader.close)
            reader.start()
            plain = () if stream.partitions.roots else stream.registration.tables
            stream.monitor.watch(stream.found.pid, reader.stop, plain)
            self._resources = resources.pop_all()

    def _hold_last_record(self) -> bool:
        """Return whether standbys copy the slot, and hold back what they may lack the record of.

        That is the record that the last session left.
        """
        found, slot = self._stream.found, self._stream.found.state
        if slot is None or not (self._stream.writes_own_wal and slot.is_failover):
            return False
        self._position.confirmed = slot.confirmed_flush_lsn or 0
        self._position.hold(found.server.wal_end)
        return True

    @property
    def outdated(self) -> str:
        """What has changed what is to be followed since the session began; empty for nothing."""
        monitor = self._stream.monitor
        if self._has_other_partitions:
            return "a partitioned table has other partitions"
        if monitor.answer.has_partitioned:
            return "a table is partitioned now"
        if monitor.has_other_ddl_notes:
            return "the source has begun or ceased to tell of DDL"
        if self._target.registration != self._stream.registration.number:
            return "`loader setup` has changed what is to be followed"
        return ""

    def follow(self, until: int | None) -> None:
        """Store what comes until the stop event is set or everything before `until` is stored.

        Ends early where it is `outdated`: a new session then follows the other tables. Raises
        LoaderError where either side breaks; what was not committed comes again.
        """
        try:
            self._follow(until)
        except Stopped:
            self._log.rollback()
        except ProtocolError as error:
            raise self._placed(protocol_error(error, self._slot)) from error
        except ValueError as error:
            raise LoaderError(f"The slot did not send a stream of wal2json: {error}") from error
        except LoaderError as error:
            raise self._placed(error) from error.__cause__
        except Exception as error:
            log.debug("the session broke", exc_info=error)
            raise unexpected(error) from error

    def _placed(self, error: LoaderError) -> LoaderError:
        """Add to the error for a row that is too large where the row is, and how to go on."""
        if not isinstance(error, RowTooLarge):
            return error
        return RowTooLarge(
            f"{error}. The row is {self._batcher.place}",
            f"{RENEW}: the new slot begins after this transaction, and the seed counts its rows",
        )

    def close(self) -> None:
        """Free the slot and close the target."""
        self._run_state.open_since = None
        self._resources.close()

    def _follow(self, until: int | None) -> None:
        position, monitor = self._position, self._stream.monitor
        if until is not None:
            # Or a slot that is only ever followed up to a position would never be confirmed.
            until = position.to_receive(until)
        while not self._is_done(until):
            self._run_state.wal_end = monitor.answer.wal_end
            if monitor.timeline.number != self._timeline.number:
                self._note_timeline()
                self._log.commit()
            position.confirm_held()
            self._stop.wait(self._pace.seconds_left(time.monotonic()))
            if self._rows.begin(_WAIT):
                self._store_batch()
            elif not self._batcher.in_transaction and (self._idle.is_over() or self._is_asked()):
                self._store_position()
                if self._stream.writes_own_wal:
                    self._idle.own_wal_end = self._log.wal_position()
            else:
                self._target.look_if_due()
        position.confirm_held()
        is_newer = position.received > position.stored
        # With other partitions the batch was rolled back: its position must not be stored.
        if is_newer and not self._batcher.in_transaction and not self._has_other_partitions:
            self._store_position()

    def _is_done(self, until: int | None) -> bool:
        is_there = until is not None and self._position.received >= until
        # In the middle of a transaction nothing is stored yet: the new session begins before it.
        return self._stop.is_set() or is_there or bool(self.outdated)

    def _note_timeline(self) -> None:
        """Write down, with the position, that a standby came to another timeline.

        It is promoted, or its primary was. All that it has sent is in its history, so the position
        is of the new timeline too; with the old one the next session would take it for lost.
        """
        timeline = self._stream.monitor.ask_timeline()
        if timeline.number != self._timeline.number:
            self._timeline = timeline
            self._log.write_source(timeline.number, timeline.began_at, on_standby=True)

    def _store_batch(self) -> None:
        """Append one batch and move the position with it, then let it be confirmed."""
        self._run_state.open_since = time.monotonic()
        batch = self._batcher.batch
        batch.end_lsn = self._log.ensure_partitions(self._batcher.newest_lsn)
        try:
            self._log.append(self._rows)
        except LoaderError as error:
            if self._rows.failure is not None:
                raise self._rows.failure from None
            if isinstance(error, EncodingUnfit):
                raise self._with_encoding_check(error) from error
            raise
        self._store_position()

    def _with_encoding_check(self, error: EncodingUnfit) -> LoaderError:
        """Have the batch sent again and each change checked, because COPY names no row."""
        newest = self._batcher.newest_lsn
        if self._run_state.check_encoding_to >= newest:
            return error
        self._run_state.check_encoding_to = newest
        return Interrupted(
            f"{error}; its changes are now checked one by one",
            "nothing; what cannot be stored as text is kept in hexadecimal and rejected",
        )

    def _store_position(self) -> None:
        """Move the position of record, with what COPY has appended, and let it be confirmed."""
        position, run_state, batch = self._position, self._run_state, self._batcher.batch
        if not self._stream.followed.note(batch, self._stop):
            self._log.rollback()
            self._has_other_partitions = True
            return
        if self._stream.monitor.is_standby:
            self._note_timeline()
        since = run_state.open_since = run_state.open_since or time.monotonic()
        registration = self._log.commit_position(position.stored, position.received, batch.rows)
        run_state.open_since = None
        # In this order: a position that is confirmed before it is committed is lost in a crash.
        failpoints.reach("after-commit")
        position.store(self._log.wal_position() if self._waits_for_standbys else None)
        self._batcher.start_next()
        self._target.note(registration)
        run_state.stored_at = now = time.monotonic()
        self._pace.note(batch.rows, now - since)
        # Only now: a build that starts earlier would not see the batch.
        run_state.changes += batch.rows
        run_state.batches += batch.rows > 0
        run_state.newest_commit_at = batch.newest_commit_at or run_state.newest_commit_at
        self._notify(Committed(batch.rows, batch.transactions, now - since))

    def _is_asked(self) -> bool:
        """Whether the server waits for us to confirm everything, or somebody for the position.

        A server that shuts down waits for that, and has no timeout while we answer: an idle loader
        would keep it running for ever. If the target is shutting down too, storing fails.
        """
        is_asked = self._rows.reply_wanted or self._target.is_awaited
        return is_asked and self._position.received > self._position.stored


class TargetNews:
    """What the target says beside the batches: of another setup, and of who waits."""

    def __init__(self, change_log: ChangeLog, registration: int) -> None:
        self._log = change_log
        self._asked_at = 0.0
        self.is_awaited = False
        """Whether somebody waits for the position in cdc.wait_for."""
        self.registration = registration
        """The number of the newest registration."""
        self.note(registration)

    def note(self, registration: int) -> None:
        """Take what a commit returns."""
        self.registration, self.is_awaited = registration, False
        self._asked_at = time.monotonic()

    def look_if_due(self) -> None:
        """Ask, unless that was a moment ago."""
        if time.monotonic() - self._asked_at >= _LOOK_SECONDS:
            self.registration, self.is_awaited = self._log.look()
            self._asked_at = time.monotonic()


class Pace:
    """How long changes gather before a batch: until shortly before the next build can take it.

    A batch has a fixed cost, and one that is stored earlier would only wait for its build.
    """

    def __init__(self, run_state: RunState) -> None:
        self._run_state = run_state
        self._seconds = 0.0
        self._changes = 0

    def note(self, changes: int, seconds: float) -> None:
        """Take how many changes a batch had, and how long it took."""
        self._seconds, self._changes = seconds, changes

    def seconds_left(self, now: float) -> float:
        """Return for how long to let changes gather; 0 after a batch that had many."""
        if self._changes > _FEW_CHANGES:
            return 0.0
        state = self._run_state
        until = min(state.apply_due_at - self._seconds, state.stored_at + _LONGEST_GATHERING)
        return max(0.0, until - now)


class Idle:
    """When the position moves although no change came."""

    def __init__(self, stream: Stream, run_state: RunState) -> None:
        self._monitor = stream.monitor
        self._run_state = run_state
        self.own_wal_end = 0
        """Where the WAL of the source ended after our own last write to it; 0 where none was."""

    def is_over(self) -> bool:
        """Whether the source wrote WAL without changes for us, so that the slot should follow.

        Moving the position writes WAL too. If that counted, an idle loader would follow its own
        writes for ever. But where the slot holds much back, what comes next may be the small record
        after which it lets go.
        """
        position = self._run_state.position
        step = position.received - max(position.stored, self.own_wal_end)
        least = 0 if self._monitor.answer.holds_much else _IDLE_BYTES
        is_due = time.monotonic() - self._run_state.stored_at >= _IDLE_SECONDS
        return step > MUCH_WAL or (step > least and is_due)
