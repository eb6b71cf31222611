"""Why a standby, a former primary or a promoted server does not go on from the record. Pure."""

from __future__ import annotations

from loader.source.remedies import RENEW, RESTART_PRIMARY
from loader.source.server import Server
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import Interrupted, IsStandby, LoaderError, SourceBehind

REASONS = {
    "rows_removed": (
        "rows of the catalog that it needed were removed by vacuum on the primary (rows_removed)",
        "on the standby: alter system set hot_standby_feedback = on; and see that "
        "primary_slot_name names a slot of the primary; then ",
    ),
    "wal_level_insufficient": (
        "the primary ran with a wal_level below logical (wal_level_insufficient)",
        f"on the primary: alter system set wal_level = 'logical'; {RESTART_PRIMARY}; then ",
    ),
    "conflict": (
        "it conflicted with what the standby replayed (conflicting)",
        "on the standby: alter system set hot_standby_feedback = on; on the primary: wal_level = "
        "logical; then ",
    ),
}
"""By a standby's reason for giving a slot up: a sentence, and the steps before a new slot."""


def no_slot_here(name: str, has_copy: bool, safe: str = "") -> IsStandby:
    """Return the error for a standby that lacks the slot, or has only a copy of it."""
    if not has_copy:
        return IsStandby(
            f"The source is a standby that does not have the slot {name}",
            "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is "
            f"promoted; to decode on this standby from now on: {RENEW}",
            safe,
        )
    return IsStandby(
        f"The source is a standby, and its slot {name} is a copy of the primary's",
        "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is promoted: "
        "the copy then goes on",
        safe,
    )


def lost_commits(server: Server, record: SlotPosition) -> LoaderError | None:
    """Return why the log or a baseline may hold commits that the source does not have."""
    safe = record.safe
    also = f"{safe}, also changes that the source no longer has"
    reached, what = record.position_lsn, "the position of record"
    if (record.baseline_lsn or 0) > reached:
        reached, what = record.baseline_lsn or 0, "the newest baseline"
    shared = None
    if server.timeline is not None and record.timeline is not None:
        shared = server.timeline.shared_with(record.timeline, record.timeline_began_lsn)
    if shared == 0:
        return SourceBehind(
            f"The source's WAL does not continue timeline {record.timeline}, which was followed: "
            "it is a former primary, or was restored",
            f"name the present primary in LOADER_SOURCE_DSN; if this is it: {RENEW}",
            also,
        )
    if shared is not None and shared < reached:
        return SourceBehind(
            f"The source was promoted or restored at {lsn.show(shared)}, before {what} "
            f"{lsn.show(reached)}: commits between are lost",
            RENEW,
            also,
        )
    if server.wal_end >= record.position_lsn:
        return None
    if server.in_recovery:
        return Interrupted(
            f"The standby has replayed up to {lsn.show(server.wal_end)}, the position of record is "
            f"{lsn.show(record.position_lsn)}",
            "nothing, if the standby still replays; the loader waits for it",
            safe,
        )
    return SourceBehind(
        f"The source's WAL ends at {lsn.show(server.wal_end)}, before the position of record "
        f"{lsn.show(record.position_lsn)}: it was restored or failed over with loss",
        RENEW,
        also,
    )
