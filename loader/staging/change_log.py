"""The staging tables in the target: append whole transactions together with the position."""

from __future__ import annotations

import time
from typing import Any, Protocol, cast

from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.staging.layout import COLUMNS, partition_number
from loader.staging.make_partition import make_partition
from loader.staging.records import SlotPosition
from loader.staging.target_state import read_slot_position
from waltally import failpoints, lsn
from waltally.database import connect, explained
from waltally.errors import Interrupted, LoaderError, NotSetUp

_LOCK = "hashtext('waltally loader')"
_PATIENCE = 15.0


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
        self._partitions: set[int] = set()
        self.connection: extensions.connection = connect(dsn, "target")
        with explained("target"), self.connection, self.connection.cursor() as cursor:
            # Durable is what we confirm. Set in any case: what the session has not set itself
            # follows a reload of the server's configuration. A lock that somebody holds for
            # long must not hold the slot's WAL without a word.
            cursor.execute("set synchronous_commit to 'on'")
            cursor.execute("set lock_timeout to '60s'")
            cursor.execute("set idle_in_transaction_session_timeout to '10min'")

    def close(self) -> None:
        """Close the session; what is not committed is gone."""
        self.connection.close()

    def record(self) -> SlotPosition:
        """Return the slot's row. Raises NotSetUp where there is none."""
        found = read_slot_position(self.connection, self._schema, self._slot)
        if found is None:
            raise NotSetUp(
                f"The slot {self._slot} has no row in {self._schema}.slot_position",
                "run `loader setup`",
            )
        return found

    def commit_locally(self) -> None:
        """Let commits wait for the server's own disk only; for a target that is the source.

        There the change log and the changes are in the same WAL, and a standby that is promoted
        has both up to the same position. To wait for standbys would add nothing, and where the
        loader were one of them it would wait for itself.
        """
        with explained("target"), self.connection, self.connection.cursor() as cursor:
            cursor.execute("set synchronous_commit to 'local'")

    def acquire_slot_lock(self) -> None:
        """Make this the only session that writes for the slot.

        Whoever streams the slot owns it, and the server lets only one; so a session that still
        holds this lock belongs to a loader that lost the slot (frozen, cut off) and is ended,
        lest its open transaction block us or its commit come late. Raises Interrupted.
        """
        # Two sources may have slots of one name, and a schema each in this database.
        key = (f"{self._slot} {self._schema}",)
        deadline = time.monotonic() + _PATIENCE
        with explained("target"):
            while not self._scalar(f"select pg_try_advisory_lock({_LOCK}, hashtext(%s))", key):
                self._scalar(
                    "select count(pg_terminate_backend(pid)) from pg_locks "
                    f"where locktype = 'advisory' and classid = {_LOCK}::oid "
                    "and objid = hashtext(%s)::oid and granted and database = "
                    "(select oid from pg_database where datname = current_database())",
                    key,
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
        """Make the partition that holds a commit LSN, and the next one, where they are missing.

        Raises what `make_partition` raises.
        """
        for number in (partition_number(position), partition_number(position) + 1):
            if number not in self._partitions:
                with explained("target"), self.connection, self.connection.cursor() as cursor:
                    make_partition(cursor, self._schema, number)
                self._partitions.add(number)

    def append(self, rows: Rows) -> None:
        """Copy the rows into the change log, in a transaction that `commit_position` ends.

        Raises Interrupted where a partition is gone that was there: the next session says more.
        """
        copy = sql.SQL("copy {}.change_log ({}) from stdin (format binary)").format(
            sql.Identifier(self._schema), sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
        )
        with explained("target"), self.connection.cursor() as cursor:
            try:
                # The driver only ever calls read; its types ask for readline too.
                cursor.copy_expert(copy, cast(Any, rows))
            except pg.CheckViolation as error:
                raise Interrupted(
                    f"The change log takes no such rows any more: {error.diag.message_primary}"
                ) from error

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
            failpoints.reach("before-commit")
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
                return str(self._scalar("select system_identifier from pg_control_system()"))
        except LoaderError:
            return None

    def wal_position(self) -> int:
        """Return where the target's own WAL ends now."""
        with explained("target"):
            return lsn.parse(str(self._scalar("select pg_current_wal_insert_lsn()")))

    def _scalar(self, query: str, arguments: tuple[object, ...] = ()) -> object:
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(query, arguments)
            row = cursor.fetchone()
        return row[0] if row else None
