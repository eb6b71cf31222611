"""Why a server gives a slot up, and how to keep the next one. Pure.

Source: PostgreSQL documentation, "pg_replication_slots", invalidation_reason.
"""

from __future__ import annotations

from loader.preflight.remedies import RELOAD, RESTART_PRIMARY

_WAL_REMOVED = ("the WAL that it needed was removed (max_slot_wal_keep_size)", "")

_REASONS = {
    "wal_removed": _WAL_REMOVED,
    "rows_removed": (
        "rows of the catalog that it needed were removed by vacuum on the primary (rows_removed)",
        "on the standby: alter system set hot_standby_feedback = on; and see that "
        "primary_slot_name names a slot of the primary; then ",
    ),
    "wal_level_insufficient": (
        "the primary ran with a wal_level below logical (wal_level_insufficient)",
        f"on the primary: alter system set wal_level = 'logical'; {RESTART_PRIMARY}; then ",
    ),
    "idle_timeout": (
        "nobody followed it for longer than idle_replication_slot_timeout (idle_timeout)",
        f"alter system set idle_replication_slot_timeout = 0; {RELOAD} -- on the source; then ",
    ),
    "conflict": (
        "it was in the way of what the standby replayed (conflicting)",
        "on the standby: alter system set hot_standby_feedback = on; on the primary: wal_level = "
        "logical; then ",
    ),
}


def why_lost(reason: str | None) -> tuple[str, str]:
    """Return what the server's reason means, and what comes before a new slot.

    Older servers name no reason: they give slots up for their WAL only.
    """
    if reason is None:
        return _WAL_REMOVED
    return _REASONS.get(reason, (f"the server says {reason}", ""))
