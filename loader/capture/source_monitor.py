"""A second connection to the source, which asks what the stream cannot show.

It asks whether our walsender still runs, whether commits wait for us, whether a plain table has
become a partitioned one, whose changes have other names, and how much WAL the slot holds back.

A walsender is silent for minutes while it skips a large transaction without changes for us, so
only the server knows whether it still runs. And its configuration may change at any moment so
that commits wait for us.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from loader.capture.poller import Poller
from loader.findings.synchronous import why_commits_wait
from loader.source.fingerprint import FingerprintCatalog
from loader.source.leaf_catalog import listed
from loader.source.standbys import HAS_WAITS, read_standbys
from waltally import lsn
from waltally.database import Connection, connect
from waltally.errors import LoaderError
from waltally.limits import limits
from waltally.tables import Table

_RELEASE_SECONDS = 1.0

_CHECK = f"""
select json_build_object(
    'has_waits', {HAS_WAITS},
    'has_slot', coalesce(slot.active_pid = %(pid)s, false),
    'wal_end', server.wal_end,
    'restart_lsn', coalesce(slot.restart_lsn - '0/0', server.wal_end),
    'has_partitioned', exists (
        select from jsonb_to_recordset(%(tables)s) as listed (schema text, name text)
        inner join pg_namespace as n on n.nspname = listed.schema
        inner join pg_class as c on c.relnamespace = n.oid and c.relname = listed.name
        where c.relkind = 'p'
    )
)
from (
    select {lsn.WAL_END} - '0/0' as wal_end
) as server
left join pg_replication_slots as slot on slot.slot_name = %(slot)s
"""
_HAS_SLOT = (
    "select active_pid from pg_replication_slots where slot_name = %(slot)s "
    "and active_pid = %(pid)s"
)
_TERMINATE = _HAS_SLOT.replace("select active_pid", "select pg_terminate_backend(active_pid)")


class Answer(NamedTuple):
    """The state of the source at one moment."""

    has_waits: bool
    """Whether commits wait for other servers."""
    has_slot: bool
    """Whether our walsender has the slot."""
    wal_end: int
    """Where its WAL ends; 0 where nothing was asked yet."""
    restart_lsn: int
    """From where on the slot holds WAL back."""
    has_partitioned: bool
    """Whether one of the plain tables is a partitioned one now."""

    @property
    def holds_much(self) -> bool:
        """Whether the slot holds back much WAL."""
        return self.wal_end - self.restart_lsn > limits.much_wal


class Look(NamedTuple):
    """A look at the tables' columns, which were what they had been when the stream began."""

    wal_end: int
    """What the snapshot shows and what was committed before this are the same, but for commits that
    are still under way."""
    snapshot: str
    """The text of pg_current_snapshot()."""


class SourceMonitor(Poller[Connection, Answer]):
    """Checks once per second, in a thread of its own once it is started."""

    def __init__(self, dsn: str, slot: str) -> None:
        """Nothing is asked before `watch`."""
        self._slot = slot
        self._pid = 0
        self._plain = "[]"
        self._woken_lsn = 0
        self._stop_stream: Callable[[LoaderError], None] = lambda _: None
        super().__init__(
            "source monitor", lambda: connect(dsn, "source"), self._check, limits.check_source
        )
        self.answer = Answer(False, True, 0, 0, False)
        """The newest one; that of a sound stream before there is one."""
        self.has_altered = False
        """Whether columns that models need are not what they were when the stream began."""
        self.look = Look(0, "1:1:")
        """The newest one that has found them so."""

    def watch(
        self,
        pid: int,
        stop: Callable[[LoaderError], None],
        plain: Sequence[Table],
        columns: FingerprintCatalog,
    ) -> None:
        """Begin to check the walsender `pid`; `stop` gets the reason where its stream must end.

        `plain` are tables of which none was partitioned when the stream began.
        """
        self._pid = pid
        self._columns = columns
        self.look = Look(columns.read_lsn, columns.snapshot)
        self._plain = listed(plain)
        self._stop_stream = stop
        self.start()

    def _check(self, connection: Connection) -> Answer:
        ((row,),) = self._read(connection, _CHECK)
        answer = Answer(**row)
        if answer.wal_end == self.answer.wal_end and answer.holds_much:
            self._wake_server(connection, answer.restart_lsn)
        self.answer = answer
        is_as_read, snapshot = self._columns.compare(connection)
        self.has_altered = not is_as_read
        if is_as_read:
            self.look = Look(answer.wal_end, snapshot)
        if answer.has_waits:
            finding = why_commits_wait(read_standbys(connection))
            if finding is not None:
                self._stop_stream(finding)
        return answer

    def _wake_server(self, connection: Connection, restart_lsn: int) -> None:
        """Let a server where nothing is written say which transactions run, if the slot needs it.

        A slot lets go of WAL only where it is confirmed after such a record and before the next.
        The server writes one every 15 seconds, but none once nothing has been written since. So
        after a burst the slot may hold all of it, although every position is confirmed. A logical
        message counts as something written. Once per position is enough: if the slot does not move
        then, a transaction is open, and its end is written too.
        """
        if self._woken_lsn == restart_lsn:
            return
        self._woken_lsn = restart_lsn
        # Where the role may not, the slot holds the WAL until something else is written.
        with suppress(LoaderError):
            connection.ask("select pg_logical_emit_message(false, 'waltally', '')")

    def failed(self, error: LoaderError, is_last: bool) -> None:
        """End the stream where this connection has had no answer for too long."""
        if is_last or self.seconds_without_answer > limits.unanswered:
            self._stop_stream(error)

    def finish(self, connection: Connection) -> None:
        """End a walsender that is too busy to notice that we are gone."""
        deadline = time.monotonic() + _RELEASE_SECONDS
        while self._read(connection, _HAS_SLOT):
            if time.monotonic() > deadline:
                self._read(connection, _TERMINATE)
                return
            time.sleep(0.02)

    def _read(self, connection: Connection, query: str) -> list[Any]:
        return connection.ask(query, {"slot": self._slot, "pid": self._pid, "tables": self._plain})
