"""Whether a slot may be followed from the position of record. Pure: others ask the servers."""

from __future__ import annotations

from dataclasses import dataclass

from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import AnotherCluster, LoaderError, SlotLost, SlotMoved, SourceBehind

RENEW = "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`"


@dataclass(frozen=True)
class Server:
    """Who the source is: the answer to IDENTIFY_SYSTEM."""

    system_identifier: str
    database: str
    wal_end: int


@dataclass(frozen=True)
class SlotState:
    """A row of pg_replication_slots."""

    plugin: str | None
    database: str | None
    active_pid: int | None
    wal_status: str | None
    confirmed_flush_lsn: int | None
    restart_lsn: int | None
    safe_wal_size: int | None


def why_not_followable(
    name: str, server: Server, slot: SlotState | None, record: SlotPosition
) -> LoaderError | None:
    """Return why the slot cannot be followed from the record, None where it can.

    The server delivers only what lies at or after its confirmed position. So where that is beyond
    the record, the changes between are lost.
    """
    safe = f"everything before {lsn.show(record.position_lsn)} is stored"
    cluster = (record.system_identifier, record.source_database)
    if (server.system_identifier, server.database) != cluster:
        return AnotherCluster(
            f"The source is database {server.database} of cluster {server.system_identifier}, but "
            f"the change log is of {record.source_database} of {record.system_identifier}",
            f"name the right source; if the cluster was replaced for good: {RENEW}",
            safe,
        )
    if slot is None:
        return SlotLost(
            f"The slot {name} no longer exists",
            RENEW,
            f"{safe}, what came after it may be lost",
        )
    if slot.plugin != "wal2json" or slot.database != record.source_database:
        return SlotMoved(
            f"The slot {name} is now of plugin {slot.plugin} in database {slot.database}: "
            "somebody remade it",
            f"if nobody needs it: `psql -c \"select pg_drop_replication_slot('{name}')\"` at the "
            f"source, then {RENEW}",
            safe,
        )
    if slot.wal_status == "lost" or slot.confirmed_flush_lsn is None:
        return SlotLost(
            f"The server has dropped WAL that the slot {name} needed (max_slot_wal_keep_size)",
            RENEW,
            f"{safe}, what came after it is lost",
        )
    if slot.confirmed_flush_lsn > record.position_lsn:
        return SlotMoved(
            f"The slot {name} is at {lsn.show(slot.confirmed_flush_lsn)}, beyond the position of "
            "record: it was moved or remade, or the target was restored",
            RENEW,
            f"{safe}, changes between are lost",
        )
    if server.wal_end < record.position_lsn:
        return SourceBehind(
            f"The source's WAL ends at {lsn.show(server.wal_end)}, before the position of record "
            f"{lsn.show(record.position_lsn)}: it was restored or failed over with loss",
            RENEW,
            f"{safe}, also changes that the source no longer has",
        )
    return None
