"""The record of a slot, and why a slot cannot be followed from the record. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loader.source.remedies import RELOAD, RENEW, THEN_SEED
from loader.source.server import Server
from loader.source.standbys import lost
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import (
    AnotherCluster,
    LoaderError,
    SlotLost,
    SlotMoved,
)

_REASONS = {
    "wal_removed": ("the WAL that it needed was removed (max_slot_wal_keep_size)", ""),
    **lost.REASONS,
    "idle_timeout": (
        "nobody followed it for longer than idle_replication_slot_timeout (idle_timeout)",
        f"alter system set idle_replication_slot_timeout = 0; {RELOAD} -- on the source; then ",
    ),
}
"""By the server's reason for giving a slot up: a sentence, and the steps before a new slot."""


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
    is_temporary: bool = False
    is_copy: bool = False
    """Whether it is a copy, which nobody can follow yet."""

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


def why_not_followable(
    name: str, server: Server, slot: SlotState | None, record: SlotPosition
) -> LoaderError | None:
    """Return why the slot cannot be followed from the record, None where it can.

    The server sends only changes from the slot's confirmed position on. Where that is beyond the
    record, the changes between the two are lost.
    """
    safe = record.safe
    if (finding := of_another_source(server, record)) is not None:
        return finding
    if server.in_recovery and (slot is None or slot.is_copy):
        return lost.no_slot_here(name, slot is not None, safe)
    if slot is None:
        return SlotLost(
            f"The slot {name} no longer exists",
            RENEW,
            f"{safe}, what came after it may be lost",
        )
    if slot.plugin != "wal2json" or slot.database != record.source_database:
        return SlotMoved(
            f"The slot {name} is now of plugin {slot.plugin} in database {slot.database}: "
            "somebody made it again",
            f"if nobody needs it: `psql -c \"select pg_drop_replication_slot('{name}')\"` at the "
            f"source, then {RENEW}",
            safe,
        )
    if slot.wal_status == "lost" or slot.confirmed_flush_lsn is None:
        # Older servers give no reason: they give up a slot only because of its WAL.
        reason = slot.invalidation_reason or "wal_removed"
        what, remedy = _REASONS.get(reason, (f"the server says {reason}", ""))
        return SlotLost(
            f"The server has given up the slot {name}: {what}",
            f"{remedy}{RENEW}",
            f"{safe}, what came after it is lost",
        )
    if slot.confirmed_flush_lsn > record.position_lsn:
        return SlotMoved(
            f"The slot {name} is at {lsn.show(slot.confirmed_flush_lsn)}, beyond the position of "
            "record: it was moved or made again, or the target was restored",
            RENEW,
            f"{safe}, changes between are lost",
        )
    return lost.lost_commits(server, record)


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

    @property
    def finding(self) -> LoaderError | None:
        """Why the slot cannot be followed from the record; None where it can, or there is none."""
        if self.record is None:
            return None
        return why_not_followable(self.name, self.server, self.state, self.record)
