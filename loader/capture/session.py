"""One try at following the slot: both connections open, judged sound, and streaming."""

from __future__ import annotations

import json
import logging
import time
from threading import Event

from loader.capture import columns, handshake
from loader.capture.batches import Batcher
from loader.capture.copy_rows import CopyRows, Stopped
from loader.capture.events import Committed, Notify, ignore
from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.protocol_errors import protocol_error
from loader.capture.queue import MessageQueue
from loader.capture.reader import SlotReader
from loader.capture.run_state import RunState
from loader.capture.source_monitor import SourceMonitor
from loader.capture.undecodable import EncodingChecker
from loader.preflight import slot_facts, standby_facts, table_identity
from loader.preflight.slot_admin import origin_name
from loader.preflight.slot_state import RENEW, why_not_followable
from loader.staging.change_log import ChangeLog
from loader.staging.records import SlotPosition
from waltally import failpoints
from waltally.errors import EncodingUnfit, Interrupted, LoaderError, RowTooLarge, unexpected
from waltally.settings import Settings
from waltally.tables import registration_finding

log = logging.getLogger("loader")

_WAIT = 0.25
_IDLE_SECONDS = 3.0
_IDLE_BYTES = 1024


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
        self._encoding_checker: EncodingChecker | None = None
        self._log = ChangeLog(settings.target, settings.schema, settings.slot)
        try:
            self._open()
        except BaseException:
            self._close_target()
            raise

    def _open(self) -> None:
        settings, name = self._settings, self._settings.slot
        replication = handshake.connect_replication(settings.source)
        monitor: SourceMonitor | None = None
        try:
            monitor = SourceMonitor(handshake.beside(settings.source, replication), name)
            found = handshake.shake_hands(replication, name, self._log.record)
            finding = why_not_followable(name, found.server, found.state, found.record)
            finding = finding or standby_facts.synchronous_finding(monitor.connection)
            if finding is not None:
                raise finding
            self._check_tables(replication, found.record)
            self._log.use_encoding(found.encoding)
            decode = self._decoder(replication, found)
            position = found.record.position_lsn
            handshake.start(replication, name, position, settings.tables, found.origin)
            # The slot is ours from here on; only now is the record final, and the slot's place.
            self._log.fence()
            record = self._log.record()
            self._check_again(monitor, found.pid, record)
            target = self._log.system_identifier()
            self._writes_own_wal = target == found.server.system_identifier
            if self._writes_own_wal:
                self._log.commit_locally()
            # Another cluster may have an origin of this name, of a source of its own.
            if found.origin is not None and target in (found.server.system_identifier, None):
                self._log.use_origin(origin_name(name))
        except ProtocolError as error:
            _end(replication, monitor)
            raise protocol_error(error, name) from error
        except BaseException:
            _end(replication, monitor)
            raise
        position = record.position_lsn
        queue = MessageQueue()
        self._batcher = Batcher(name, position, clock=time.monotonic)
        self._rows = CopyRows(queue, self._batcher, self._stop)
        self._run_state.position = position
        self._own_wal_end = 0
        self._idle_since = time.monotonic()
        self._monitor = monitor
        self._reader = SlotReader(
            replication, queue, position, found.status_seconds, monitor, decode
        )
        self._reader.start()
        monitor.start(found.pid, self._reader.stop)

    def _decoder(
        self, replication: ReplicationConnection, found: handshake.Handshake
    ) -> columns.Decode:
        """Return what reads a payload; it examines each change where the last try asked for it."""
        decode = columns.decoder(replication, self._settings, found.encoding)
        until = self._run_state.check_encoding_to
        if until <= found.record.position_lsn:
            return decode
        self._encoding_checker = EncodingChecker(self._settings.target, found.encoding, until)
        return self._encoding_checker.checking(decode)

    def _check_again(self, monitor: SourceMonitor, pid: int, record: SlotPosition) -> None:
        """Judge once more what can no longer move.

        The server takes a position below the slot's own for the slot's own, without a word: if
        the slot was moved after the first look, the changes between would be missing.
        """
        name = self._settings.slot
        state = slot_facts.read_state(monitor.connection, name)
        server = slot_facts.read_server(monitor.connection)
        finding = why_not_followable(name, server, state, record)
        if finding is not None:
            raise finding
        if state is None or state.active_pid != pid:
            raise Interrupted(
                f"A second connection to the source does not see that process {pid} streams {name}",
                "name one server in LOADER_SOURCE_DSN, without a pooler or balancer before it",
            )

    def _check_tables(self, replication: ReplicationConnection, record: SlotPosition) -> None:
        """Raise SettingError for other tables than setup registered, TableUnfit for missing ones.

        The slot passes over the changes of a table that is not named, or has another name now.
        Where a name means another table than was counted the log can go on: that is only said.
        """
        settings = self._settings
        other = registration_finding(settings.tables, record.tables, settings.slot, logged=True)
        if other is not None:
            raise other
        ((text,),) = replication.query(table_identity.query(settings.tables))
        found = json.loads(str(text))
        for table in settings.tables:
            if str(table) not in found:
                raise table_identity.missing_finding(table, settings.tables)
        counted = table_identity.read_counted(self._log.connection, settings.schema, settings.slot)
        finding = table_identity.replaced_finding(counted, found, settings.archive)
        if finding is not None:
            log.warning(finding.sentence)

    def follow(self, until: int | None) -> None:
        """Store what comes until the stop event is set or everything before `until` is stored.

        Raises LoaderError where either side breaks; what was not committed comes again.
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
            raise LoaderError(f"The slot sent what is no wal2json stream: {error}") from error
        except LoaderError:
            raise
        except Exception as error:
            log.debug("the session broke", exc_info=error)
            raise unexpected(error) from error

    def _placed(self, error: LoaderError) -> LoaderError:
        """Say of a row that is too large where it is, and how to go on."""
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
        self._monitor.close()
        self._close_target()

    def _close_target(self) -> None:
        self._log.close()
        if self._encoding_checker is not None:
            self._encoding_checker.close()

    def _follow(self, until: int | None) -> None:
        batcher, rows = self._batcher, self._rows
        while not self._stop.is_set() and (until is None or batcher.received_lsn < until):
            if rows.begin(_WAIT):
                self._store_batch()
            elif not batcher.in_transaction and (self._idles() or self._is_asked()):
                self._store_position()
                if self._writes_own_wal:
                    self._own_wal_end = self._log.wal_position()
        if not batcher.in_transaction and batcher.received_lsn > batcher.flushed_lsn:
            self._store_position()

    def _store_batch(self) -> None:
        """Append one batch and move the position with it, then let it be confirmed."""
        self._run_state.open_since = time.monotonic()
        self._log.ensure_partitions(self._batcher.commit_lsn)
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
        """Have the batch sent again, and each of its changes examined, as COPY names no row."""
        newest = self._batcher.newest_lsn
        if self._run_state.check_encoding_to >= newest:
            return error
        self._run_state.check_encoding_to = newest
        return Interrupted(
            f"{error}; its changes are now examined one by one",
            "nothing; what cannot be stored as text is kept in hexadecimal and rejected",
        )

    def _store_position(self) -> None:
        batcher, run_state = self._batcher, self._run_state
        changes, transactions = batcher.rows, batcher.transactions
        since = run_state.open_since = run_state.open_since or time.monotonic()
        self._log.commit_position(batcher.flushed_lsn, batcher.received_lsn, changes)
        run_state.open_since = None
        # Adjacent and in this order: confirmed before committed would be lost in a crash.
        failpoints.reach("after-commit")
        batcher.stored()
        self._reader.confirm(batcher.flushed_lsn)
        run_state.position = batcher.flushed_lsn
        # Only now: whoever builds what was staged must not look before it is there.
        run_state.changes += changes
        run_state.batches += changes > 0
        self._idle_since = time.monotonic()
        self._notify(Committed(changes, transactions, self._idle_since - since))

    def _is_asked(self) -> bool:
        """Whether the server waits to hear that we are done.

        Shutting down, it ends only when everything it sent is confirmed, and while we answer it
        never takes us for dead: an idle loader would keep it up for ever. Where the target goes
        down with it, the attempt shows that.
        """
        return self._rows.reply_wanted and self._batcher.received_lsn > self._batcher.flushed_lsn

    def _idles(self) -> bool:
        """Whether WAL has passed without a change for us, so that the slot should follow.

        Moving the position is WAL too: were it counted, an idle loader would follow itself for
        ever.
        """
        reached = max(self._batcher.flushed_lsn, self._own_wal_end)
        return (
            self._batcher.received_lsn > reached + _IDLE_BYTES
            and time.monotonic() - self._idle_since >= _IDLE_SECONDS
        )


def _end(replication: ReplicationConnection, monitor: SourceMonitor | None) -> None:
    replication.finish()
    if monitor is not None:
        monitor.close()
