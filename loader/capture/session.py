"""One try at following the slot: stores batch after batch and confirms what is stored."""

from __future__ import annotations

import logging
import time
from threading import Event

from loader.capture.altered_tables import altered_tables
from loader.capture.batches import Batcher
from loader.capture.copy_rows import CopyRows, Stopped
from loader.capture.events import Committed, Notify, RunState, ignore
from loader.capture.held_positions import HeldPositions
from loader.capture.protocol import ProtocolError, protocol_error
from loader.capture.queue import MessageQueue
from loader.capture.reader import SlotReader
from loader.capture.source_monitor import MUCH_WAL
from loader.capture.stream import open_stream
from loader.source.slot import RENEW
from loader.staging.change_log import ChangeLog
from waltally import failpoints
from waltally.errors import EncodingUnfit, Interrupted, LoaderError, RowTooLarge, unexpected
from waltally.followed import begun_anew
from waltally.settings import Settings

log = logging.getLogger("loader")

_WAIT = 0.25
_IDLE_SECONDS = 3.0
_IDLE_BYTES = 1024
_LOOK_SECONDS = 0.25


class Session:
    """Follows the slot until stopped, until a position, or until something breaks."""

    def __init__(
        self, settings: Settings, stop: Event, run_state: RunState, notify: Notify = ignore
    ) -> None:
        """Open and check everything. Raises LoaderError; the slot is then as it was."""
        self._notify = notify
        self._settings = settings
        self._stop = stop
        self._run_state = run_state
        self._log = ChangeLog(settings.target, settings.schema, settings.slot)
        try:
            stream = open_stream(settings, self._log, run_state.check_encoding_to)
        except BaseException:
            self._log.close()
            raise
        self._stream = stream
        position = stream.position_lsn
        queue = MessageQueue()
        self._batcher = Batcher(settings.slot, position, clock=time.monotonic)
        self._rows = CopyRows(queue, self._batcher, stop)
        run_state.position_lsn = position
        self._registered = stream.registration.number
        self._followed = stream.followed
        self._has_other_leaves = False
        self._asked_at = time.monotonic()
        self._is_awaited = False
        self._own_wal_end = 0
        found, slot = stream.found, stream.found.state
        self._held = HeldPositions()
        self._waits_for_standbys = False
        confirmed = position
        if stream.writes_own_wal and slot is not None and slot.is_failover:
            self._waits_for_standbys = True
            # The standbys may lack the record that the last session left.
            self._held.hold(found.server.wal_end, found.record.position_lsn)
            confirmed = slot.confirmed_flush_lsn or 0
        self._idle_since = time.monotonic()
        self._timeline = found.timeline
        self._reader = SlotReader(stream, queue, confirmed)
        self._reader.start()
        plain = stream.registration.tables if stream.leaves is None else ()
        stream.monitor.start(found.pid, self._reader.stop, plain)

    @property
    def outdated(self) -> str:
        """What has changed what is to be followed since the session began; empty for nothing."""
        monitor = self._stream.monitor
        if self._has_other_leaves:
            return "a partitioned table has other partitions"
        if monitor.has_partitioned:
            return "a table is partitioned now"
        if monitor.has_other_ddl_notes:
            return "the source has begun or ceased to tell of DDL"
        if self._registered != self._stream.registration.number:
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
            failure = protocol_error(error, self._settings.slot)
            raise self._placed(failure) from error
        except RowTooLarge as error:
            raise self._placed(error) from error
        except ValueError as error:
            raise LoaderError(f"The slot did not send a stream of wal2json: {error}") from error
        except LoaderError:
            raise
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
        self._reader.close()
        self._stream.monitor.close()
        self._log.close()
        if self._stream.leaves is not None:
            self._stream.leaves.close()
        if self._stream.encoding_checker is not None:
            self._stream.encoding_checker.close()

    def _follow(self, until: int | None) -> None:
        batcher, rows = self._batcher, self._rows
        if until is not None:
            # Or a slot that is only ever followed up to a position would never be confirmed.
            until = self._held.wanted(until)
        while not self._is_done(until):
            self._run_state.wal_end = self._stream.monitor.wal_end
            if self._stream.monitor.timeline.number != self._timeline.number:
                self._note_timeline()
                self._log.commit()
            self._confirm_held()
            if rows.begin(_WAIT):
                self._store_batch()
            elif not batcher.in_transaction and (self._idles() or self._is_asked()):
                self._store_position()
                if self._stream.writes_own_wal:
                    self._own_wal_end = self._log.wal_position()
            elif time.monotonic() - self._asked_at >= _LOOK_SECONDS:
                self._registered, self._is_awaited = self._log.look()
                self._asked_at = time.monotonic()
        self._confirm_held()
        is_newer = batcher.received_lsn > batcher.flushed_lsn
        # With other leaves the batch was rolled back: its position must not be stored.
        if is_newer and not batcher.in_transaction and not self._has_other_leaves:
            self._store_position()

    def _confirm_held(self) -> None:
        position = self._held.take(self._batcher.received_lsn)
        if position is not None:
            self._reader.confirm(position)

    def _note_timeline(self) -> None:
        """Write down, with the position, that a standby came to another timeline.

        It is promoted, or its primary was. All that it has sent is in its history, so the position
        is of the new timeline too; with the old one the next session would take it for lost.
        """
        timeline = self._stream.monitor.ask_timeline()
        if timeline.number != self._timeline.number:
            self._timeline = timeline
            self._log.write_source(timeline.number, timeline.began_at, on_standby=True)

    def _is_done(self, until: int | None) -> bool:
        is_there = until is not None and self._batcher.received_lsn >= until
        # In the middle of a transaction nothing is stored yet: the new session begins before it.
        return self._stop.is_set() or is_there or bool(self.outdated)

    def _store_batch(self) -> None:
        """Append one batch and move the position with it, then let it be confirmed."""
        self._run_state.open_since = time.monotonic()
        self._batcher.end_before(self._log.ensure_partitions(self._batcher.commit_lsn))
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
        batcher, run_state = self._batcher, self._run_state
        if not self._is_log_whole():
            self._log.rollback()
            self._has_other_leaves = True
            return
        if self._stream.monitor.is_standby:
            self._note_timeline()
        changes, transactions = batcher.rows, batcher.transactions
        since = run_state.open_since = run_state.open_since or time.monotonic()
        self._registered = self._log.commit_position(
            batcher.flushed_lsn, batcher.received_lsn, changes
        )
        self._asked_at, self._is_awaited = time.monotonic(), False
        run_state.open_since = None
        # In this order: a position that is confirmed before it is committed is lost in a crash.
        failpoints.reach("after-commit")
        batcher.stored()
        if self._waits_for_standbys:
            self._held.hold(self._log.wal_position(), batcher.flushed_lsn)
        else:
            self._reader.confirm(batcher.flushed_lsn)
        run_state.position_lsn = batcher.flushed_lsn
        # Only now: a build that starts earlier would not see the batch.
        run_state.changes += changes
        run_state.batches += changes > 0
        run_state.newest_commit_at = batcher.newest_commit_at or run_state.newest_commit_at
        self._idle_since = time.monotonic()
        self._notify(Committed(changes, transactions, self._idle_since - since))

    def _is_log_whole(self) -> bool:
        """Whether the batch holds everything of all leaves; write down what it lacks otherwise."""
        leaves = self._stream.leaves
        if leaves is not None and not leaves.are_as_read(self._batcher.xids, self._stop):
            return False
        noted = None if leaves is None else leaves.take_noted(self._followed)
        followed = self._followed if noted is None else noted
        roots = {} if leaves is None else leaves.roots
        altered = altered_tables(self._batcher.altered, self._stream.registration, roots)
        for _, finding in altered.values():
            log.warning(finding.sentence)
        if noted is not None or altered:
            starts = {table: start for table, (start, _) in altered.items()}
            followed = begun_anew(followed, starts)
            self._log.write_followed(self._stream.registration, followed, roots)
            self._followed = followed
        return True

    def _is_asked(self) -> bool:
        """Whether the server waits for us to confirm everything, or somebody for the position.

        A server that shuts down waits for that, and has no timeout while we answer: an idle loader
        would keep it running for ever. If the target is shutting down too, storing fails.
        """
        is_asked = self._rows.reply_wanted or self._is_awaited
        return is_asked and self._batcher.received_lsn > self._batcher.flushed_lsn

    def _idles(self) -> bool:
        """Whether the source wrote WAL without changes for us, so that the slot should follow.

        Moving the position writes WAL too. If that counted, an idle loader would follow its own
        writes for ever. But where the slot holds much back, what comes next may be the small record
        after which it lets go.
        """
        step = self._batcher.received_lsn - max(self._batcher.flushed_lsn, self._own_wal_end)
        least = 0 if self._stream.monitor.holds_much else _IDLE_BYTES
        is_due = time.monotonic() - self._idle_since >= _IDLE_SECONDS
        return step > MUCH_WAL or (step > least and is_due)
