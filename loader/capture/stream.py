"""A slot that is streamed and is ours, in three phases: ask, judge, own.

Asking changes nothing. Judging raises, and the slot is then as it was. From owning on, only we move
the slot and its record.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import replace

from psycopg.conninfo import make_conninfo

from loader.capture.catalogs import Catalog
from loader.capture.followed_tables import FollowedTables
from loader.capture.handshake import Handshake, connect_replication, shake_hands, start
from loader.capture.lacking_tables import find_lacking, of_followed
from loader.capture.position import Position
from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.protocol_errors import protocol_error
from loader.capture.reader import SlotReader
from loader.capture.source_monitor import SourceMonitor
from loader.capture.stages.columns import column_stage
from loader.capture.stages.encodings import EncodingChecker
from loader.capture.stages.partitions import Partitions
from loader.findings.lists import NOTED, STREAM, findings
from loader.findings.slot import why_not_followable
from loader.source.asking import read_server, read_slot_state
from loader.source.asking_tables import read_counted
from loader.source.fingerprint import FingerprintCatalog
from loader.source.leaf_catalog import LeafCatalog
from loader.source.read_state import read_stream
from loader.source.slot_admin import origin_name
from loader.source.standbys import write_source
from loader.staging.change_log import ChangeLog
from loader.staging.records import Registration, SlotPosition
from loader.staging.registration import read_registration, register_tables
from waltally import failpoints
from waltally.database import Connection, connect
from waltally.errors import Interrupted, combine
from waltally.settings import Settings

log = logging.getLogger("loader")

_LOOK_SECONDS = 2.0
"""How often to ask for a table that cannot be followed yet."""


class Stream:
    """Opens, owns and closes all that one session streams with."""

    def __init__(self, settings: Settings, check_encoding_to: int) -> None:
        """Ask, judge and begin to read. Raises LoaderError.

        Changes up to the commit LSN `check_encoding_to` are checked one by one for text that the
        target cannot hold.
        """
        with ExitStack() as parts:
            try:
                self.log = ChangeLog(settings)
                parts.callback(self.log.close)
                self._replication = connect_replication(settings.source)
                parts.callback(self._replication.finish)
                # The same server: the string may name several.
                dsn = make_conninfo(settings.source, **self._replication.address)
                self._source = connect(dsn, "source")
                parts.callback(self._source.close)
                self._ask(settings)
                self._judge()
                self._make_stages(settings, check_encoding_to, parts)
                self._own()
                if not self._catalogs and not self._lacking:
                    self._source.close()
                self.monitor = SourceMonitor(dsn, settings.slot)
                parts.callback(self.monitor.close)
                self._read(parts)
            except ProtocolError as error:
                raise protocol_error(error, settings.slot) from error
            self._parts = parts.pop_all()

    def _ask(self, settings: Settings) -> None:
        """Ask both servers everything that is judged before the slot is streamed."""
        source = self._source
        self._hello = hello = shake_hands(self._replication, settings.slot, self.log.record)
        self._stored = registration = read_registration(self.log.connection)
        self._leaves = LeafCatalog(source, registration.tables, registration.leaves)
        roots = self._leaves.roots
        # Of a table that is new, the partitions are as they should be.
        new = {
            table: root for table, root in roots.items() if table not in registration.fingerprints
        }
        counted = read_counted(self.log.connection)
        # A seed may have counted a table before any loader knew it.
        fingerprints = {
            table: {
                column: own
                for identities in counted.values()
                if str(table) in identities
                for column, own in identities[str(table)]["fingerprint"].items()
            }
            for table in registration.tables
        }
        self.registration = replace(
            registration,
            leaves={**new, **registration.leaves},
            fingerprints={**fingerprints, **registration.fingerprints},
        )
        state = read_stream(settings, source, hello.slot, registration.models, roots)
        self._state = replace(state, registration=self.registration, counted=counted)
        self._kept, self._keep_columns = column_stage(
            source, self.registration, settings.columns, hello.encoding
        )
        source.give_up_locks()
        self._lacking = self._newest_lacking = find_lacking(source, self._state)
        self._lacking_at = time.monotonic()
        self._fingerprints = FingerprintCatalog(source, registration.read_by)

    def _judge(self) -> None:
        """Raise why the slot may not be streamed; log what models have to be counted again for."""
        if problems := findings(STREAM, of_followed(self._state)):
            raise combine(problems)
        for finding in findings(NOTED, self._state):
            log.warning(finding.sentence)

    def _make_stages(self, settings: Settings, check_encoding_to: int, parts: ExitStack) -> None:
        """Make what changes the slot's messages on their way."""
        hello, at = self._hello, self._hello.record.position_lsn
        self._partitions = Partitions(self._leaves, self.registration, at)
        check_encoding = None
        if check_encoding_to > at:
            checker = EncodingChecker(settings.target, hello.encoding, check_encoding_to)
            parts.callback(checker.close)
            check_encoding = checker.check
        # Columns are known by the names of the partitioned tables, and a row that moves is found
        # by the columns that are left.
        rename, join = self._partitions.stages
        stages = (rename, self._keep_columns, check_encoding, join)
        self._stages = [stage for stage in stages if stage]
        self._catalogs: list[Catalog] = []
        """What has to stay as it is; the source's connection asks."""
        if self._partitions.roots:
            self._catalogs.append(self._leaves)
        if self._fingerprints.has_enums:
            self._catalogs.append(self._fingerprints)

    def _own(self) -> None:
        """Stream the slot, take its record, and write down what the log holds from here on."""
        hello, partitions, slot = self._hello, self._partitions, self._hello.slot
        start(
            *(self._replication, slot.name, hello.record.position_lsn),
            *(partitions.tables, hello.origin),
        )
        # Only the owner of the slot moves the record and the slot. We own it from here on, so
        # both are read and judged again.
        self.log.acquire_slot_lock()
        record = self.log.record()
        judge_again(hello, self._replication, self._source, record)
        require_same_log(self._stored, read_registration(self.log.connection))
        self._fit_target(hello)
        # Only now: the log goes on from this position with these tables and no others.
        failpoints.reach("before-followed")
        for finding in self._lacking.values():
            log.warning("%s\nTry: %s", finding, finding.remedy)
        self.log.begin()
        register_tables(
            *(self.log.connection, self.registration, self._fingerprints.identities),
            # Nothing from there on was streamed yet, and may be committed and not visible.
            *(self._lacking, min(self._fingerprints.read_lsn, record.position_lsn)),
        )
        self.followed = FollowedTables(
            *(self.log, self.registration, partitions, self._fingerprints, self._catalogs)
        )
        kept = {table: own for table, own in self._kept.items() if table not in self._lacking}
        self.followed.begin(kept, record.position_lsn)
        self.log.commit()
        failpoints.reach("after-followed")
        self.position = Position(record.position_lsn)
        # Where other servers copy the slot, they may lack the record that the last session left.
        has_copies = slot.state is not None and slot.state.has_copies
        self.confirms_late = has_copies and self.writes_own_wal
        """Whether a position is confirmed only once the WAL with its record has come back."""
        if slot.state is not None and self.confirms_late:
            self.position.confirmed = slot.state.confirmed_flush_lsn or 0
            self.position.hold(slot.server.wal_end)

    def _fit_target(self, hello: Handshake) -> None:
        """Have the target's session fit the source, and write down the source's history."""
        target = self.log.system_identifier()
        self.writes_own_wal = target == hello.slot.server.system_identifier
        """Whether the target is the source's own cluster, so that its WAL holds our writes."""
        self.log.use_encoding(hello.encoding)
        if self.writes_own_wal:
            self.log.commit_locally()
        # Another cluster may have an origin of this name for a source of its own.
        if hello.origin is not None and (self.writes_own_wal or target is None):
            self.log.use_origin(origin_name(hello.slot.name))
        self.log.begin()
        write_source(self.log.connection, hello.slot.server)
        self.log.commit()

    def _read(self, parts: ExitStack) -> None:
        """Begin to read the slot and to watch the source."""
        self.reader = SlotReader(
            *(self._replication, self.position, self.monitor, self._stages),
            *(self._partitions.names.root_of, self._hello.status_seconds, self._source.cut),
        )
        # Closed first: then the monitor sees to it that the slot is free.
        parts.callback(self.reader.close)
        self.reader.start()
        plain = () if self._partitions.roots else self.registration.tables
        self.monitor.watch(self._hello.pid, self.reader.stop, plain, self._fingerprints)

    @property
    def outdated(self) -> str:
        """What has changed at the source since the stream began; empty for nothing."""
        if self.followed.has_refused:
            return "a partitioned table has other partitions, or an enum other labels"
        if self.monitor.answer.has_partitioned:
            return "a table is partitioned now"
        if self.monitor.has_altered:
            return "a table or a column is not what it was"
        if self._lacking and time.monotonic() - self._lacking_at > _LOOK_SECONDS:
            self._newest_lacking = find_lacking(self._source, self._state)
            self._lacking_at = time.monotonic()
        if [*map(str, self._newest_lacking.values())] != [*map(str, self._lacking.values())]:
            return "a table lacks something else than it did"
        return ""

    def close(self) -> None:
        """Free the slot and end every connection."""
        self._parts.close()


def judge_again(
    hello: Handshake, replication: ReplicationConnection, source: Connection, record: SlotPosition
) -> None:
    """Judge again what can no longer move.

    If we ask for a position before the slot's own, the server silently starts at its own. So where
    the slot was moved after the first look, the changes between would be missing.
    """
    state = read_slot_state(source, hello.slot.name)
    server = replace(hello.slot.server, wal_end=read_server(source).wal_end)
    slot = replace(hello.slot, state=state, record=record, server=server)
    if (finding := why_not_followable(slot)) is not None:
        raise finding
    if state is None or state.active_pid != hello.pid:
        # Where the server has ended the stream since, this raises why, after what came before.
        while replication.receive(2**20):
            pass
        raise Interrupted(
            "A second connection to the source does not see that process "
            f"{hello.pid} streams {hello.slot.name}",
            "name one server in LOADER_SOURCE_DSN, without a pooler or balancer before it",
        )


def require_same_log(before: Registration, now: Registration) -> None:
    """Raise Interrupted where another loader has noted meanwhile what the log holds, or lacks.

    It would be written over by what was read before: a gap would be forgotten.
    """
    held = ("followed", "leaves", "fingerprints")
    if any(getattr(before, each) != getattr(now, each) for each in held):
        raise Interrupted(
            "Another loader has written down meanwhile what the log holds of the tables",
            "nothing: this one looks again",
        )
