"""One try at following the slot: both connections open, judged sound, and streaming."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from threading import Event

from loader import columns, kill_points, slot, source_tables, standby_facts, standing
from loader.batches import Batcher
from loader.change_log import ChangeLog, Record
from loader.copy_source import CopySource, Stopped
from loader.errors import EncodingUnfit, Interrupted, LoaderError, RowTooLarge, unexpected
from loader.events import Committed, Notify, ignore
from loader.inbox import Inbox, Message
from loader.protocol import Keepalive, ProtocolError, ReplicationConnection
from loader.settings import Settings
from loader.stream import Stream
from loader.tables import not_registered
from loader.undecodable import Examiner
from loader.verdict import RENEW, objection
from loader.watch import Watch

log = logging.getLogger("loader")

_WAIT = 0.25
_IDLE_SECONDS = 3.0
_IDLE_BYTES = 1024


@dataclass
class Totals:
    """What this run has stored so far."""

    changes: int = 0
    batches: int = 0
    position: int = 0
    examine_to: int = 0
    """Changes up to this commit LSN are asked one by one whether the target can hold their text."""
    open_since: float | None = None
    """When the batch that is not committed yet began, on the monotonic clock."""


class Session:
    """Follows the slot until stopped, until a position, or until something breaks."""

    def __init__(
        self, settings: Settings, stop: Event, totals: Totals, notify: Notify = ignore
    ) -> None:
        """Open and check everything. Raises LoaderError; the slot is then as it was."""
        self._notify = notify
        self._settings = settings
        self._stop = stop
        self._totals = totals
        self._inbox = Inbox()
        self._examiner: Examiner | None = None
        self._log = ChangeLog(settings.target, settings.schema, settings.slot)
        try:
            self._open()
        except BaseException:
            self._close_target()
            raise

    def _open(self) -> None:
        name = self._settings.slot
        replication = slot.connect_replication(self._settings.source)
        watch: Watch | None = None
        try:
            watch = Watch(slot.beside(self._settings.source, replication), name)
            # In this order, as another loader may be moving all three: the slot never passes the
            # record, and the record never passes the end of the WAL.
            state = slot.read_state(replication, name)
            record = self._log.record()
            server = slot.identify(replication)
            origin = slot.read_origin(replication, name)
            interval = slot.status_seconds(replication)
            complaint = objection(name, server, state, record)
            if complaint is not None:
                raise complaint
            finding = standby_facts.ask(watch.connection)
            if finding is not None:
                raise finding
            self._check_tables(replication, record)
            # The server sends text as it stores it, whatever client_encoding says.
            encoding = slot.encoding(replication)
            self._log.use_encoding(encoding)
            decode = columns.decoder(replication, self._settings, encoding)
            pid = slot.backend(replication)
            if self._totals.examine_to > record.position_lsn:
                examine_to = self._totals.examine_to
                self._examiner = Examiner(self._settings.target, encoding, examine_to)
                decode = self._examiner.reading(decode)
            slot.start(replication, name, record.position_lsn, self._settings.tables, origin)
            # The slot is ours from here on; only now is the record final, and the slot's place.
            self._log.fence()
            record = self._log.record()
            self._check_again(watch, pid, record)
            target = self._log.system_identifier()
            self._writes_own_wal = target == server.system_identifier
            if self._writes_own_wal:
                self._log.commit_locally()
            # Another cluster may have an origin of this name, of a source of its own.
            if origin is not None and target in (server.system_identifier, None):
                self._log.use_origin(slot.origin_name(name))
        except ProtocolError as error:
            _end(replication, watch)
            raise slot.protocol_error(error, name) from error
        except BaseException:
            _end(replication, watch)
            raise
        position = record.position_lsn
        self._batcher = Batcher(name, position, clock=time.monotonic)
        self._totals.position = position
        self._own_wal_end = 0
        self._idle_since = time.monotonic()
        self._watch = watch
        self._stream = Stream(replication, self._inbox, position, interval, watch, decode)
        self._stream.start()
        watch.start(pid, self._stream.leave)

    def _check_again(self, watch: Watch, pid: int, record: Record) -> None:
        """Judge once more what can no longer move.

        The server takes a position below the slot's own for the slot's own, without a word: if
        the slot was moved after the first look, the changes between would be missing.
        """
        name = self._settings.slot
        state = slot.read_state_sql(watch.connection, name)
        server = standing.read_server(watch.connection)
        complaint = objection(name, server, state, record)
        if complaint is not None:
            raise complaint
        if state is None or state.active_pid != pid:
            raise Interrupted(
                f"A second connection to the source does not see that process {pid} streams {name}",
                "name one server in LOADER_SOURCE_DSN, without a pooler or balancer before it",
            )

    def _check_tables(self, replication: ReplicationConnection, record: Record) -> None:
        """Raise SettingError for other tables than setup registered, TableUnfit for missing ones.

        The slot passes over the changes of a table that is not named, or has another name now.
        Where a name means another table than was counted the log can go on: that is only said.
        """
        settings = self._settings
        other = not_registered(settings.tables, record.tables, settings.slot, logged=True)
        if other is not None:
            raise other
        ((text,),) = replication.query(source_tables.query(settings.tables))
        found = json.loads(str(text))
        for table in settings.tables:
            if str(table) not in found:
                raise source_tables.missing(table, settings.tables)
        counted = source_tables.counted(self._log.connection, settings.schema, settings.slot)
        complaint = source_tables.replaced(counted, found, settings.archive)
        if complaint is not None:
            log.warning(complaint.sentence)

    def follow(self, until: int | None) -> None:
        """Store what comes until the stop event is set or everything before `until` is stored.

        Raises LoaderError where either side breaks; what was not committed comes again.
        """
        try:
            self._follow(until)
        except Stopped:
            self._log.rollback()
        except ProtocolError as error:
            failure = slot.protocol_error(error, self._settings.slot)
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
        self._totals.open_since = None
        self._stream.close()
        self._watch.close()
        self._close_target()

    def _close_target(self) -> None:
        self._log.close()
        if self._examiner is not None:
            self._examiner.close()

    def _follow(self, until: int | None) -> None:
        batcher = self._batcher
        while not self._stop.is_set() and (until is None or batcher.seen < until):
            message = self._inbox.take(_WAIT)
            if message is not None and (row := batcher.accept(message)):
                self._store(row)
            elif not batcher.in_transaction and (self._idles() or self._is_asked(message)):
                self._store_position()
                if self._writes_own_wal:
                    self._own_wal_end = self._log.wal_position()
        if not batcher.in_transaction and batcher.seen > batcher.position:
            self._store_position()

    def _store(self, first_row: bytes) -> None:
        """Append one batch and move the position with it, then let it be confirmed."""
        batcher = self._batcher
        self._totals.open_since = time.monotonic()
        self._log.ensure_partitions(batcher.commit_lsn)
        source = CopySource(first_row, self._inbox, batcher, self._stop)
        try:
            self._log.append(source)
        except LoaderError as error:
            if source.failure is not None:
                raise source.failure from None
            if isinstance(error, EncodingUnfit):
                raise self._must_examine(error) from error
            raise
        self._store_position()

    def _must_examine(self, error: EncodingUnfit) -> LoaderError:
        """Have the batch sent again, and each of its changes examined, as COPY names no row."""
        newest = self._batcher.newest_lsn
        if self._totals.examine_to >= newest:
            return error
        self._totals.examine_to = newest
        return Interrupted(
            f"{error}; its changes are now examined one by one",
            "nothing; what cannot be stored as text is kept in hexadecimal and rejected",
        )

    def _store_position(self) -> None:
        batcher, totals = self._batcher, self._totals
        changes, transactions = batcher.rows, batcher.transactions
        since = totals.open_since = totals.open_since or time.monotonic()
        self._log.commit_position(batcher.position, batcher.seen, changes)
        totals.open_since = None
        # Adjacent and in this order: confirmed before committed would be lost in a crash.
        kill_points.reach("after-commit")
        batcher.stored()
        self._stream.confirm(batcher.position)
        totals.position = batcher.position
        # Only now: whoever builds what was staged must not look before it is there.
        totals.changes += changes
        totals.batches += changes > 0
        self._idle_since = time.monotonic()
        self._notify(Committed(changes, transactions, self._idle_since - since))

    def _is_asked(self, message: Message | None) -> bool:
        """Whether the server waits to hear that we are done.

        Shutting down, it ends only when everything it sent is confirmed, and while we answer it
        never takes us for dead: an idle loader would keep it up for ever. Where the target goes
        down with it, the attempt shows that.
        """
        asked = isinstance(message, Keepalive) and message.wants_reply
        return asked and self._batcher.seen > self._batcher.position

    def _idles(self) -> bool:
        """Whether WAL has passed without a change for us, so that the slot should follow.

        Moving the position is WAL too: were it counted, an idle loader would follow itself for
        ever.
        """
        reached = max(self._batcher.position, self._own_wal_end)
        return (
            self._batcher.seen > reached + _IDLE_BYTES
            and time.monotonic() - self._idle_since >= _IDLE_SECONDS
        )


def _end(replication: ReplicationConnection, watch: Watch | None) -> None:
    replication.finish()
    if watch is not None:
        watch.close()
