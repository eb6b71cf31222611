"""The staging tables in the target: append whole transactions together with the position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from psycopg2 import errors as pg
from psycopg2 import extensions

from loader.staging.make_partition import make_partition
from loader.staging.partitions import COLUMNS, Block
from loader.staging.records import SlotPosition
from loader.staging.target_state import require_slot_position
from waltally import failpoints, locks, lsn
from waltally.database import connect_target
from waltally.errors import Interrupted, LoaderError
from waltally.server_errors import lent_session
from waltally.settings import SlotSettings

_PATIENCE = 15.0


class _Pieces:
    """COPY's data, as the file that psycopg2 reads. An error raised in it would lose its type."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _size: int) -> bytes:
        failpoints.reach("copy-chunk")
        return next(self._pieces, b"")


class ChangeLog:
    """One session at the target, writing for one slot."""

    def __init__(self, settings: SlotSettings) -> None:
        """Connect. Raises LoginRefused, CannotConnect."""
        self.connection = connect_target(settings)
        self._partitions: tuple[Block, ...] = ()
        """Those that `ensure_partitions` found or made last."""
        log = self.connection.table("change_log")
        self._copy = f"copy {log} ({', '.join(COLUMNS)}) from stdin (format binary)"
        self._move = (
            f"update {self.connection.table('slot_position')} set position_lsn = %s, "
            "moved_at = now(), stored_changes = stored_changes + %s, "
            "catalog_lsn = greatest(catalog_lsn, %s) "
            "where slot_name = %s and position_lsn = %s "
            f"returning {self.connection.table('models_version')}(slot_name), "
            "current_setting('synchronous_commit')"
        )
        # Only what is durable is confirmed. A setting that the session does not set itself changes
        # when the server's configuration is reloaded. The lock timeout turns a lock that somebody
        # holds for long into an error: the slot would hold WAL unnoticed.
        self._wait_for_commits("on")
        self.connection.ask("set lock_timeout to '60s'")
        self.connection.ask("set idle_in_transaction_session_timeout to '10min'")

    def close(self) -> None:
        """Close the session; what is not committed is gone."""
        self.connection.close()

    def record(self) -> SlotPosition:
        """Return the slot's row. Raises NotSetUp where there is none."""
        return require_slot_position(self.connection)

    def look(self) -> tuple[int, bool]:
        """Return the version of the installed models, and whether the position is waited for.

        Who calls cdc.wait_for holds a lock meanwhile, and a model waits for a baseline that is
        ahead of the position, or for a look at the tables' columns. It writes nothing.
        """
        rows = self.connection.ask_staging(
            "select {0}.models_version(slot_name), case when pg_try_advisory_lock(wait.key) "
            "then not pg_advisory_unlock(wait.key) else true end or exists ("
            "select from {0}.baseline where baseline.slot_name = log.slot_name "
            "and snapshot_lsn > position_lsn and system_identifier = log.system_identifier) "
            "or exists (select from {0}.installed_model as own where own.slot_name = log.slot_name "
            "and own.is_unseen) "
            "from {0}.slot_position as log "
            "cross join lateral {0}.lock_key('wait', slot_name) as wait (key) where slot_name = %s",
            (self.connection.slot,),
        )
        return rows[0] if rows else (0, False)

    def commit_locally(self) -> None:
        """Make commits wait for the server's own disk only; for a target that is the source.

        The change log and the changes are then in one WAL: a standby has both up to the same
        position, so waiting for one adds nothing. Where `synchronous_standby_names` matches the
        loader it would even wait for itself.
        """
        self._wait_for_commits("local")

    def _wait_for_commits(self, value: str) -> None:
        self.connection.ask("select set_config('synchronous_commit', %s, false)", (value,))
        self._synchronous_commit = value

    def acquire_slot_lock(self) -> None:
        """Make this the only session that writes for the slot. Raises Interrupted.

        The server lets one loader stream the slot, and that loader is we. Another session that
        holds this lock belongs to a loader that lost the slot: it was frozen or cut off. That
        session is ended, because its transaction could block ours or commit late.
        """
        # Two sources may have slots of the same name, each with its own schema in this database.
        names = (self.connection.schema, self.connection.slot)
        if not locks.acquire(
            self.connection, "loader", *names, seconds=_PATIENCE, ends_holders=True
        ):
            raise Interrupted(
                f"Another session still writes for the slot {self.connection.slot}",
                "end it with pg_terminate_backend; pg_locks shows it as advisory",
            )

    def use_origin(self, name: str) -> bool:
        """Tag this session's writes with a replication origin; False where we may not.

        Without it the slot decodes the loader's own rows and drops them: slower, not wrong.
        """
        try:
            self.connection.ask("select pg_replication_origin_session_setup(%s)", (name,))
        except LoaderError:
            return False
        return True

    def use_encoding(self, name: str) -> None:
        """Declare the encoding of the text that is copied."""
        self.connection.ask("set client_encoding to %s", (name,))

    def ensure_partitions(self, position: int) -> int:
        """Make the partition that holds a commit LSN, and the next one, where they are missing.

        Return where the next one ends. Raises what `make_partition` raises.
        """
        present = self._partition_at(position)
        following = self._partition_at(present.to_lsn)
        self._partitions = (present, following)
        return following.to_lsn

    def _partition_at(self, position: int) -> Block:
        for block in self._partitions:
            if block.holds(position):
                return block
        log_size = position - self.record().start_lsn
        with self.connection.transaction():
            return make_partition(self.connection, position, log_size)

    def append(self, pieces: Iterator[bytes]) -> None:
        """Copy rows into the change log, in a transaction that `commit_position` ends.

        The pieces, none of them empty, make COPY's binary format, header and trailer included, and
        raise nothing. Raises EncodingUnfit, Interrupted where a partition has disappeared.
        """
        # In one message with COPY, where no transaction is open.
        copy = self._copy if self._is_open else "begin; " + self._copy
        try:
            # The driver only ever calls read; its types ask for readline too.
            self.connection.copy(copy, cast(Any, _Pieces(pieces)))
        except LoaderError as error:
            if isinstance(gone := error.__cause__, pg.CheckViolation):
                raise Interrupted(
                    f"A partition of the change log is gone: {gone.diag.message_primary}"
                ) from error
            raise

    def commit_position(self, before: int, after: int, changes: int, seen: int = 0) -> int:
        """Move the position of record and commit it with the `changes` rows appended since.

        Up to `seen` the tables' columns were those that were registered.
        Return the version of the installed models. Raises Interrupted where the row is not at
        `before`: another loader moved it; LoginRefused where a proxy has lent another session,
        whose commit might be lost in a crash.
        """
        self.begin()
        moved = self.connection.ask(
            self._move,
            (lsn.show(after), changes, lsn.show(seen), self.connection.slot, lsn.show(before)),
        )
        if not moved:
            self.rollback()
            raise Interrupted(
                f"The position of {self.connection.slot} is no longer {lsn.show(before)}",
                "see that only one loader runs; this one goes on from the new position",
            )
        ((models_version, synchronous_commit),) = moved
        if synchronous_commit != self._synchronous_commit:
            self.rollback()
            raise lent_session("target")
        failpoints.reach("before-commit")
        self.commit()
        return int(models_version)

    def commit(self) -> None:
        """End the transaction that `begin` has begun."""
        if self._is_open:
            self.connection.ask("commit")

    def rollback(self) -> None:
        """Roll back what is not committed."""
        if not self.connection.closed and self._is_open:
            self.connection.ask("rollback")

    @property
    def _is_open(self) -> bool:
        status = self.connection.info.transaction_status
        return bool(status != extensions.TRANSACTION_STATUS_IDLE)

    def begin(self) -> None:
        """Begin the transaction that COPY and the position share, where none is open."""
        if not self._is_open:
            self.connection.ask("begin")

    def system_identifier(self) -> str | None:
        """Return which cluster the target is, None where this role may not see that."""
        try:
            ((identifier,),) = self.connection.ask(
                "select system_identifier from pg_control_system()"
            )
        except LoaderError:
            return None
        return str(identifier)

    def wal_position(self) -> int:
        """Return where the target's own WAL ends now."""
        return lsn.parse(self.connection.ask("select pg_current_wal_insert_lsn()")[0][0])
