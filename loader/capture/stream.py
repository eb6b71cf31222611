"""A slot that is streamed and is ours, in three phases: ask, judge, own.

Asking changes nothing. Judging raises, and the slot is then as it was. From owning on, only we move
the slot and its record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

from psycopg.conninfo import make_conninfo

from loader.capture.catalogs import Catalog
from loader.capture.followed_tables import FollowedTables
from loader.capture.handshake import Handshake, connect_replication, shake_hands, start
from loader.capture.lacking_tables import Lacking, find_lacking, of_followed
from loader.capture.position import Position
from loader.capture.protocol import ProtocolError, ReplicationConnection
from loader.capture.protocol_errors import protocol_error
from loader.capture.reader import SlotReader
from loader.capture.source_monitor import SourceMonitor
from loader.capture.stages import Stage
from loader.capture.stages.columns import column_stage
from loader.capture.stages.encodings import EncodingChecker
from loader.capture.stages.partitions import Partitions
from loader.source import findings as rules
from loader.source.asking import read_server, read_slot_state
from loader.source.asking_tables import read_counted
from loader.source.label_catalog import LabelCatalog
from loader.source.leaf_catalog import LeafCatalog
from loader.source.read_state import read_stream
from loader.source.slot_admin import origin_name
from loader.source.standbys import actions
from loader.source.standbys import findings as standby_rules
from loader.source.state import State
from loader.source.table_identity import TableIdentities
from loader.staging.change_log import ChangeLog
from loader.staging.logged_tables import Kept, Labels
from loader.staging.records import Registration, SlotPosition
from waltally import failpoints
from waltally.database import Connection, connect
from waltally.errors import Interrupted, combine
from waltally.settings import Settings
from waltally.tables import Table

log = logging.getLogger("loader")

_LOOK_SECONDS = 2.0
"""How often to ask for a table that cannot be followed yet."""


@dataclass(frozen=True)
class Answers:
    """What source and target say before anything is streamed."""

    hello: Handshake
    state: State
    catalog: LeafCatalog
    labels: LabelCatalog
    kept: Kept
    """The columns of each table that are kept."""
    keep_columns: Stage | None
    """Removes the others; None where all are kept."""
    lacking: Lacking
    """The tables that are not followed, and why."""


def ask(
    settings: Settings, replication: ReplicationConnection, source: Connection, target: ChangeLog
) -> Answers:
    """Ask both servers everything that is judged before the slot is streamed."""
    hello = shake_hands(replication, settings.slot, target.record)
    registration = target.registration()
    catalog = LeafCatalog(source, registration.tables, registration.leaves)
    # Of a table that is new, the partitions are as they should be.
    new = {table: root for table, root in catalog.roots.items() if table not in registration.labels}
    counted = read_counted(target.connection)
    registration = replace(
        registration,
        leaves={**new, **registration.leaves},
        # A seed may have counted a table before any loader knew it.
        labels={**_counted_labels(registration, counted), **registration.labels},
    )
    state = read_stream(settings, source, hello.slot, registration.models, catalog.roots)
    state = replace(state, registration=registration, counted=counted)
    kept, keep_columns = column_stage(source, registration, settings.columns, hello.encoding)
    source.give_up_locks()
    lacking = find_lacking(source, state)
    return Answers(
        hello,
        state,
        catalog,
        LabelCatalog(source, registration.models),
        {table: columns for table, columns in kept.items() if table not in lacking},
        keep_columns,
        lacking,
    )


def _counted_labels(
    registration: Registration, counted: Mapping[str, TableIdentities]
) -> dict[Table, Labels]:
    """Return what the needed columns of each table were when its models counted them."""
    labels: dict[Table, Labels] = {}
    for table in registration.tables:
        for identities in counted.values():
            if (identity := identities.get(str(table))) is not None:
                labels[table] = {**labels.get(table, {}), **identity["labels"]}
    return labels


REFUSED: tuple[rules.Rule, ...] = (
    rules.slot_goes_on,
    standby_rules.commits_do_not_wait,
    rules.tables_are_there,
    rules.no_partition_is_declared,
)
"""Rules without which nothing can be streamed."""

NOTED: tuple[rules.Rule, ...] = (rules.tables_are_those_counted, rules.leaves_fit)
"""Rules whose findings are logged: the log goes on, and the models wait."""


def judge(state: State) -> None:
    """Raise why the slot may not be streamed; log what the models have to be counted again for."""
    for rule in REFUSED:
        if findings := list(rule(of_followed(state))):
            raise combine(findings)
    for rule in NOTED:
        for finding in rule(state):
            log.warning(finding.sentence)


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
                replication = connect_replication(settings.source)
                parts.callback(replication.finish)
                # The same server: the string may name several.
                dsn = make_conninfo(settings.source, **replication.address)
                source = connect(dsn, "source")
                parts.callback(source.close)
                answers = ask(settings, replication, source, self.log)
                judge(answers.state)
                self._own(settings, answers, replication, source, check_encoding_to, parts)
                self._source, self._answers = source, answers
                self._lacking, self._lacking_at = answers.lacking, time.monotonic()
                if not self.catalogs and not answers.lacking:
                    source.close()
                self.monitor = SourceMonitor(dsn, answers.hello.slot.name)
                parts.callback(self.monitor.close)
                self._read(answers, replication, source, parts)
            except ProtocolError as error:
                raise protocol_error(error, settings.slot) from error
            self._parts = parts.pop_all()

    def _own(
        self,
        settings: Settings,
        answers: Answers,
        replication: ReplicationConnection,
        source: Connection,
        check_encoding_to: int,
        parts: ExitStack,
    ) -> None:
        """Stream the slot, take its record, and write down what the log holds from here on."""
        hello, self.registration = answers.hello, answers.state.registration
        at = hello.record.position_lsn
        self.partitions = Partitions(answers.catalog, self.registration, at)
        self.catalogs: list[Catalog] = []
        """What has to stay as it is; the source's connection asks."""
        if self.partitions.roots:
            self.catalogs.append(answers.catalog)
        if not answers.labels.is_empty:
            self.catalogs.append(answers.labels)
        check_encoding = None
        if check_encoding_to > at:
            checker = EncodingChecker(settings.target, hello.encoding, check_encoding_to)
            parts.callback(checker.close)
            check_encoding = checker.check
        # Columns are known by the names of the partitioned tables, and a row that moves is found
        # by the columns that are left.
        rename, join = self.partitions.stages
        self._stages = [
            stage for stage in (rename, answers.keep_columns, check_encoding, join) if stage
        ]
        tables = self.partitions.tables
        start(replication, hello.slot.name, at, tables, hello.origin)
        # Only the owner of the slot moves the record and the slot. We own it from here on, so
        # both are read and judged again.
        self.log.acquire_slot_lock()
        record = self.log.record()
        judge_again(hello, replication, source, record)
        self._fit_target(hello)
        # Only now: the log goes on from this position with these tables and no others.
        failpoints.reach("before-followed")
        for finding in answers.lacking.values():
            log.warning("%s\nTry: %s", finding, finding.remedy)
        self.log.register_tables(
            *(self.registration, answers.state.identities, answers.lacking),
            answers.labels.read_lsn,
        )
        self.followed = FollowedTables(
            self.log, self.registration, self.partitions, answers.labels, self.catalogs
        )
        self.followed.begin(answers.kept, record.position_lsn)
        self.log.commit()
        failpoints.reach("after-followed")
        self.position = Position(record.position_lsn)
        self._hold_last_record(hello)

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
        actions.write_source(self.log.connection, hello.slot.server)
        self.log.commit()

    def _hold_last_record(self, hello: Handshake) -> None:
        """Where other servers copy the slot, hold back what they may lack the record of.

        That is the record that the last session left.
        """
        slot = hello.slot.state
        self.confirms_late = slot is not None and slot.has_copies and self.writes_own_wal
        """Whether a position is confirmed only once the WAL with its record has come back."""
        if slot is not None and self.confirms_late:
            self.position.confirmed = slot.confirmed_flush_lsn or 0
            self.position.hold(hello.slot.server.wal_end)

    def _read(
        self,
        answers: Answers,
        replication: ReplicationConnection,
        source: Connection,
        parts: ExitStack,
    ) -> None:
        """Begin to read the slot and to watch the source."""
        hello, partitions = answers.hello, self.partitions
        reader = SlotReader(
            replication,
            self.position,
            self.monitor,
            self._stages,
            partitions.names.root_of,
            hello.status_seconds,
            source.cut,
        )
        # Closed first: then the monitor sees to it that the slot is free.
        parts.callback(reader.close)
        reader.start()
        self.reader = reader
        plain = () if partitions.roots else self.registration.tables
        self.monitor.watch(hello.pid, reader.stop, plain, answers.labels)

    @property
    def outdated(self) -> str:
        """What has changed at the source since the stream began; empty for nothing."""
        if self.followed.has_refused:
            return "a partitioned table has other partitions, or an enum other labels"
        if self.monitor.answer.has_partitioned:
            return "a table is partitioned now"
        if self.monitor.has_altered:
            return "a table or a column is not what it was"
        if self._lacks_the_same():
            return ""
        return "a table lacks something else than it did"

    def _lacks_the_same(self) -> bool:
        """Return whether the tables that are not followed still lack what they did."""
        answers = self._answers
        if answers.lacking and time.monotonic() - self._lacking_at > _LOOK_SECONDS:
            self._lacking = find_lacking(self._source, answers.state)
            self._lacking_at = time.monotonic()
        return [*map(str, self._lacking.values())] == [*map(str, answers.lacking.values())]

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
    if (finding := rules.why_not_followable(slot)) is not None:
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
