"""The staging tables in the target: append whole transactions together with the position."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol, cast

from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader import kill_points, lsn
from loader.batches import COLUMNS, WINDOW_BITS, window
from loader.database import connect, explained
from loader.errors import Interrupted, LoaderError, NotSetUp

_LOCK = "hashtext('waltally loader')"
_PATIENCE = 15.0


@dataclass(frozen=True)
class Record:
    """A slot's row in slot_position."""

    system_identifier: str
    source_database: str
    start_lsn: int
    position_lsn: int


class Rows(Protocol):
    """COPY data, binary format, header and trailer included; psycopg2 reads it like a file."""

    def read(self, size: int, /) -> bytes:
        """Return some more bytes, none at the end."""
        ...


class ChangeLog:
    """One session at the target, writing for one slot."""

    def __init__(self, dsn: str, schema: str, slot: str) -> None:
        """Connect. Raises LoginRefused, CannotConnect."""
        self._slot = slot
        self._schema = schema
        self._windows: set[int] = set()
        self.connection: extensions.connection = connect(dsn, "target")
        with explained("target"), self.connection, self.connection.cursor() as cursor:
            # Durable is what we confirm, whatever the role's own default is; a lock that
            # somebody holds for long must not hold the slot's WAL without a word.
            cursor.execute(
                "select set_config('synchronous_commit', 'on', false) "
                "where current_setting('synchronous_commit') = 'off'"
            )
            cursor.execute("set lock_timeout to '60s'")
            cursor.execute("set idle_in_transaction_session_timeout to '10min'")

    def close(self) -> None:
        """Close the session; what is not committed is gone."""
        self.connection.close()

    def record(self) -> Record:
        """Return the slot's row. Raises NotSetUp where there is none."""
        found = read_record(self.connection, self._schema, self._slot)
        if found is None:
            raise NotSetUp(
                f"The slot {self._slot} has no row in {self._schema}.slot_position",
                "run `loader setup`",
            )
        return found

    def fence(self) -> None:
        """Make this the only session that writes for the slot.

        Whoever streams the slot owns it, and the server lets only one; so a session that still
        holds this lock belongs to a loader that lost the slot (frozen, cut off) and is ended,
        lest its open transaction block us or its commit come late. Raises Interrupted.
        """
        deadline = time.monotonic() + _PATIENCE
        with explained("target"):
            while not self._scalar(f"select pg_try_advisory_lock({_LOCK}, hashtext(%s))"):
                self._scalar(
                    "select count(pg_terminate_backend(pid)) from pg_locks "
                    f"where locktype = 'advisory' and classid = {_LOCK}::oid "
                    "and objid = hashtext(%s)::oid and granted and database = "
                    "(select oid from pg_database where datname = current_database())"
                )
                if time.monotonic() > deadline:
                    raise Interrupted(
                        f"Another session still writes for the slot {self._slot}",
                        "end it with pg_terminate_backend; pg_locks shows it as advisory",
                    )
                time.sleep(0.2)

    def use_origin(self, name: str) -> bool:
        """Tag this session's writes with a replication origin; False where we may not.

        Without it the slot decodes the loader's own rows only to drop them: slower, not wrong.
        """
        try:
            with explained("target"), self.connection, self.connection.cursor() as cursor:
                cursor.execute("select pg_replication_origin_session_setup(%s)", (name,))
        except LoaderError:
            return False
        return True

    def use_encoding(self, name: str) -> None:
        """Let the server take what is copied as text in this encoding."""
        with explained("target"), self.connection, self.connection.cursor() as cursor:
            cursor.execute("set client_encoding to %s", (name,))

    def ensure_partitions(self, position: int) -> None:
        """Make the partitions for a commit LSN and for what follows, where they are missing."""
        for number in (window(position), window(position) + 1):
            if number not in self._windows:
                with explained("target"), self.connection, self.connection.cursor() as cursor:
                    self._make_partition(cursor, number)
                self._windows.add(number)

    def append(self, rows: Rows) -> None:
        """Copy the rows into the change log, in a transaction that `commit_position` ends."""
        copy = sql.SQL("copy {}.change_log ({}) from stdin (format binary)").format(
            sql.Identifier(self._schema), sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
        )
        with explained("target"), self.connection.cursor() as cursor:
            # The driver only ever calls read; its types ask for readline too.
            cursor.copy_expert(copy, cast(Any, rows))

    def commit_position(self, before: int, after: int, changes: int) -> None:
        """Move the position of record and commit it with the `changes` rows appended since.

        Raises Interrupted where the row is not at `before`: another loader was here.
        """
        move = sql.SQL(
            "update {}.slot_position set position_lsn = %s, moved_at = now(), "
            "stored_changes = stored_changes + %s where slot_name = %s and position_lsn = %s"
        ).format(sql.Identifier(self._schema))
        with explained("target"), self.connection.cursor() as cursor:
            cursor.execute(move, (lsn.show(after), changes, self._slot, lsn.show(before)))
            if cursor.rowcount != 1:
                self.connection.rollback()
                raise Interrupted(
                    f"The position of {self._slot} is no longer {lsn.show(before)}",
                    "see that only one loader runs; this one goes on from the new position",
                )
            kill_points.reach("before-commit")
            self.connection.commit()

    def rollback(self) -> None:
        """Forget what is not committed."""
        if not self.connection.closed:
            with explained("target"):
                self.connection.rollback()

    def system_identifier(self) -> str | None:
        """Return which cluster the target is, None where it does not tell."""
        try:
            with explained("target"):
                return str(self._scalar("select system_identifier from pg_control_system()", ()))
        except LoaderError:
            return None

    def wal_position(self) -> int:
        """Return where the target's own WAL ends now."""
        with explained("target"):
            return lsn.parse(str(self._scalar("select pg_current_wal_insert_lsn()", ())))

    def _make_partition(self, cursor: extensions.cursor, number: int) -> None:
        name = f"change_log_{number:08x}"
        cursor.execute(
            "select found, exists (select from pg_inherits where inhrelid = found) "
            "from to_regclass(%s) as found",
            (sql.Identifier(self._schema, name).as_string(cursor),),
        )
        ((found, is_attached),) = cursor.fetchall()
        if is_attached:
            return
        # Attached, not created as a partition: that would lock out readers of the whole log.
        # One that is there already was left by a prune that was killed.
        parent, partition = (sql.Identifier(self._schema, n) for n in ("change_log", name))
        if found is None:
            make = sql.SQL("create table {} (like {} including all)")
            cursor.execute(make.format(partition, parent))
        cursor.execute(
            sql.SQL("alter table {} attach partition {} for values from (%s) to (%s)").format(
                parent, partition
            ),
            (lsn.show(number << WINDOW_BITS), lsn.show(number + 1 << WINDOW_BITS)),
        )

    def _scalar(self, query: str, arguments: tuple[object, ...] | None = None) -> object:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(query, (self._slot,) if arguments is None else arguments)
            row = cursor.fetchone()
        return row[0] if row else None


def read_record(connection: extensions.connection, schema: str, slot: str) -> Record | None:
    """Return a slot's row in slot_position, None where it has none. Raises NotSetUp."""
    query = sql.SQL(
        "select system_identifier, source_database, start_lsn, position_lsn, "
        # Not wanted here: commit_position needs it, and a missing column is seen at the start.
        "stored_changes from {}.slot_position where slot_name = %s"
    ).format(sql.Identifier(schema))
    with explained("target"), connection, connection.cursor() as cursor:
        try:
            cursor.execute(query, (slot,))
        except pg.UndefinedColumn:
            raise NotSetUp(
                f"The schema {schema} was made by an older loader", "run `loader setup`"
            ) from None
        row = cursor.fetchone()
    if row is None:
        return None
    return Record(row[0], row[1], lsn.parse(row[2]), lsn.parse(row[3]))
