"""The records of a slot. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loader.source.remedies import THEN_SEED
from loader.source.server import Server
from loader.staging.records import SlotPosition
from waltally.errors import AnotherCluster, LoaderError


@dataclass(frozen=True)
class SlotState:
    """A row of pg_replication_slots; a column that an older server lacks is None or False."""

    plugin: str | None
    database: str | None
    active_pid: int | None
    wal_status: str | None
    confirmed_flush_lsn: int | None
    restart_lsn: int | None
    safe_wal_size: int | None
    invalidation_reason: str | None = None
    """The server's word for why the slot is lost; 16 says `conflict` for all but missing WAL."""
    inactive_seconds: float | None = None
    """How long nobody has followed it; None while somebody does."""
    idle_timeout_seconds: float | None = None
    """The server's idle_replication_slot_timeout; 0 for none."""
    has_copies: bool = False
    """Whether other servers may keep a copy of it."""

    def wal_held(self, wal_end: int) -> int | None:
        """Return how many bytes of WAL the server keeps for it; None where it keeps none."""
        return None if self.restart_lsn is None else max(0, wal_end - self.restart_lsn)


def of_another_source(server: Server, record: SlotPosition) -> LoaderError | None:
    """Return why the record is not of this cluster and database, None where it is."""
    cluster = (record.system_identifier, record.source_database)
    if (server.system_identifier, server.database) == cluster:
        return None
    return AnotherCluster(
        f"The source is database {server.database} of cluster {server.system_identifier}, but "
        f"the change log is of {record.source_database} of {record.system_identifier}",
        "name the right source; if the cluster was replaced for good: "
        f"`loader setup --renew --source-is-gone`{THEN_SEED}",
        record.safe,
    )


def another_name(name: str, database: str) -> str:
    """Return another name for a slot; slots of all databases of a server share their names."""
    plain = re.sub(r"[^a-z0-9_]", "_", database.lower())
    return f"{name[:31]}_{plain[:31]}"


@dataclass(frozen=True)
class SlotInfo:
    """A slot, its record and its server; no record where the slot is not set up."""

    name: str
    state: SlotState | None
    record: SlotPosition | None
    server: Server

    @property
    def is_of_another_source(self) -> bool:
        """Whether the record is of another cluster or database, where its slot is too."""
        record = self.record
        return record is not None and of_another_source(self.server, record) is not None
