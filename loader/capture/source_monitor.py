"""A second connection to the source: whether our walsender still runs, and whether commits wait.

And whether a plain table has become a partitioned one, whose changes have other names, and how
much WAL the slot holds back.

A walsender is silent for minutes while it skips a large transaction without changes for us, so
only the server knows whether it still runs. And the server's configuration may change at any
moment so that commits wait for us.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg2
from psycopg.conninfo import make_conninfo

from loader.source import ddl_notes, leaf_catalog
from loader.source.slot import Timeline, read_timeline
from loader.source.synchronous import synchronous_finding
from waltally import lsn
from waltally.database import Connection, connect
from waltally.errors import CannotConnect, Interrupted, LoaderError, unexpected
from waltally.tables import Table

log = logging.getLogger("loader")

CHECK_SECONDS = 1.0
MAX_SECONDS_WITHOUT_ANSWER = 60.0
"""How long the stream goes on while this connection is broken or does not answer."""

MUCH_WAL = 16 * 1024 * 1024
"""A slot that holds back more than this is made to follow; the server frees WAL in such pieces."""

_ASK_SECONDS = 10.0
_RELEASE_SECONDS = 1.0
_CLOSE_SECONDS = 3.0

_CHECK = """
select
    current_setting('synchronous_standby_names'),
    slot.active_pid = %(pid)s,
    case
        when pg_is_in_recovery() then pg_last_wal_replay_lsn()
        else pg_current_wal_insert_lsn()
    end,
    slot.restart_lsn,
    (HAS_PARTITIONED),
    DDL_NOTES
from (select) as server
left join pg_replication_slots as slot on slot.slot_name = %(slot)s
""".replace("DDL_NOTES", ddl_notes.INSTALLED)
_NO_PARTITIONED = _CHECK.replace("HAS_PARTITIONED", "false")
_TERMINATE = (
    "select pg_terminate_backend(active_pid) from pg_replication_slots "
    "where slot_name = %(slot)s and active_pid = %(pid)s"
)


class SourceMonitor:
    """Checks once per second, in a thread of its own once it is started."""

    def __init__(self, dsn: str, slot: str, timeline: Timeline, is_standby: bool) -> None:
        """Connect. Raises LoginRefused, CannotConnect.

        A standby may come to another timeline while it is followed: it is promoted, or its primary
        was. Only a replication connection can ask for that.
        """
        self._dsn = make_conninfo(dsn, replication="database") if is_standby else dsn
        self.is_standby = is_standby
        """Whether the server was a standby when the session began."""
        self._timeline = timeline
        self._checks = threading.Condition()
        self._begun = 0
        self._ended = 0
        self._failure: LoaderError | None = None
        self._wanted = threading.Event()
        self._slot = slot
        self._pid = 0
        self._has_slot = True
        self._query = _NO_PARTITIONED
        self.has_partitioned = False
        """Whether one of the plain tables is a partitioned one now."""
        self.wal_end = 0
        """Where the source's WAL ended when it last answered here; 0 before that."""
        self._restart_lsn = 0
        self._woken_lsn = 0
        self._answered_at = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source monitor", daemon=True)
        self._stop_stream: Callable[[LoaderError], None] = lambda _: None
        self._connection: Connection | None = connect(self._dsn, "source")
        self._ddl_notes = self._ask(f"select {ddl_notes.INSTALLED}")[0]
        self.has_other_ddl_notes = False
        """Whether the source began or ceased to tell of DDL since this was made."""

    @property
    def connection(self) -> Connection:
        """The connection, for questions before the thread is started."""
        assert self._connection is not None
        return self._connection

    def start(
        self, pid: int, stop: Callable[[LoaderError], None], plain: Sequence[Table] = ()
    ) -> None:
        """Begin to check the walsender `pid`; `stop` gets the reason where its stream must end.

        `plain` are tables of which none was partitioned when the stream began.
        """
        self._pid = pid
        # A name may hold the mark of a parameter.
        is_partitioned = leaf_catalog.has_partitioned(plain).replace("%", "%%")
        self._query = _CHECK.replace("HAS_PARTITIONED", is_partitioned)
        self._stop_stream = stop
        self._answered_at = time.monotonic()
        self._thread.start()

    @property
    def holds_much(self) -> bool:
        """Whether the slot held back much WAL when the server last answered here."""
        return self.wal_end - self._restart_lsn > MUCH_WAL

    @property
    def timeline(self) -> Timeline:
        """The server's timeline when it last answered here."""
        return self._timeline

    def ask_timeline(self) -> Timeline:
        """Return a timeline of a standby whose history holds all that the stream has sent by now.

        Raises CannotConnect, Interrupted and other LoaderErrors where it does not answer here.
        """
        with self._checks:
            # A check that runs already may have asked before the server sent what we have.
            wanted = self._begun + 1
            self._wanted.set()
            if not self._checks.wait_for(lambda: self._ended >= wanted, _ASK_SECONDS):
                raise CannotConnect(
                    f"The standby has not said for {_ASK_SECONDS:.0f} s which timeline it is on",
                    "check that the server runs and has a free connection for the loader",
                )
            if self._failure is not None:
                raise self._failure
            return self._timeline

    @property
    def seconds_without_answer(self) -> float:
        """How long ago the server last answered here."""
        return time.monotonic() - self._answered_at

    @property
    def has_slot(self) -> bool:
        """Whether our walsender still had the slot when the server last answered here."""
        return self._has_slot

    def close(self) -> None:
        """Make sure that the slot is free, if the server answers, and end the connection."""
        self._stopping.set()
        self._wanted.set()
        if self._thread.ident is None:
            self._disconnect()
            return
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            # It waits for a server that does not answer. A connection attempt ends by itself
            # after connect_timeout.
            self._shut_down_socket()
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._check()
                except LoaderError as error:
                    self._end_check(error)
                    self._disconnect()
                    if self.seconds_without_answer > MAX_SECONDS_WITHOUT_ANSWER:
                        self._stop_stream(error)
                self._wanted.wait(CHECK_SECONDS)
                self._wanted.clear()
            with suppress(LoaderError):
                self._release()
        except Exception as error:
            log.debug("the source monitor broke", exc_info=error)
            self._stop_stream(unexpected(error))
        finally:
            self._disconnect()

    def _check(self) -> None:
        with self._checks:
            self._begun += 1
        if self._connection is None:
            self._connection = connect(self._dsn, "source")
        names, has_slot, wal_end, restart_lsn, has_partitioned, notes = self._ask(self._query)
        before, self.wal_end = self.wal_end, lsn.parse(str(wal_end or "0/0"))
        self._restart_lsn = lsn.parse(str(restart_lsn or wal_end or "0/0"))
        if before == self.wal_end and not self.is_standby:
            self._wake_server()
        self._has_slot = bool(has_slot)
        # Another server may have taken over the address: its timeline says nothing of our stream.
        if self.is_standby and has_slot:
            self._read_timeline()
        self._end_check(None if has_slot else Interrupted("The source streams the slot no longer"))
        self._answered_at = time.monotonic()
        self.has_partitioned = bool(has_partitioned)
        self.has_other_ddl_notes = notes != self._ddl_notes
        if names and (finding := synchronous_finding(self._connection)) is not None:
            self._stop_stream(finding)

    def _wake_server(self) -> None:
        """Let a server where nothing is written say which transactions run, if the slot needs it.

        A slot lets go of WAL only where it is confirmed after such a record and before the next.
        The server writes one every 15 seconds, but none once nothing has been written since. So
        after a burst the slot may hold all of it, although every position is confirmed. A logical
        message counts as something written. Once per position is enough: if the slot does not move
        then, a transaction is open, and its end is written too.
        """
        if not self.holds_much or self._woken_lsn == self._restart_lsn:
            return
        self._woken_lsn = self._restart_lsn
        # Where the role may not, the slot holds the WAL until something else is written.
        with suppress(LoaderError):
            self._ask("select pg_logical_emit_message(false, 'waltally', '')")

    def _read_timeline(self) -> None:
        number = int(str(self._ask("IDENTIFY_SYSTEM")[1]))
        if number != self._timeline.number:
            self._timeline = read_timeline(number, self._ask)

    def _end_check(self, failure: LoaderError | None) -> None:
        """Let those go on who wait for a check."""
        with self._checks:
            self._ended, self._failure = self._begun, failure
            self._checks.notify_all()

    def _release(self) -> None:
        """End a walsender that is too busy to notice that we are gone."""
        deadline = time.monotonic() + _RELEASE_SECONDS
        while self._connection is not None and self._ask(_NO_PARTITIONED)[1]:
            if time.monotonic() > deadline:
                self._ask(_TERMINATE)
                return
            time.sleep(0.02)

    def _ask(self, query: str) -> tuple[object, ...]:
        rows = self.connection.ask(query, {"slot": self._slot, "pid": self._pid})
        return rows[0] if rows else ()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg2.Error):
                connection.close()

    def _shut_down_socket(self) -> None:
        """Make a query that waits for an answer fail."""
        connection = self._connection
        with suppress(psycopg2.Error, OSError, AttributeError):
            handle = socket.socket(fileno=os.dup(connection.fileno()))  # type: ignore[union-attr]
            with handle:
                handle.shutdown(socket.SHUT_RDWR)
