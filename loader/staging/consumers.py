"""Who still needs the change log: slots, models, rebuilds and archives."""

from __future__ import annotations

from loader.staging.prune_session import PruneSession
from loader.staging.retention import Archive, Consumers, Watermark
from loader.staging.target_state import SLOT_POSITIONS, slot_position
from waltally import lsn

_SLOTS = f"{SLOT_POSITIONS} order by slot_name"
_WATERMARKS = """
select
    model_name,
    slot_name,
    applied_lsn,
    exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = model_name
    )
from {0}.model_watermark
order by model_name
"""
# A rebuild cannot start from a baseline of another cluster than the slot's.
_BASELINES = """
select slot_name, seed.snapshot_lsn
from {0}.historical_snapshot as seed
inner join {0}.slot_position using (slot_name, system_identifier)
"""
_ARCHIVES = "select slot_name, from_lsn, archived_lsn from {0}.archive_position"


def read_consumers(session: PruneSession, lock: bool = False) -> Consumers:
    """Return who needs the log; `lock` keeps the slots' rows from changing.

    Raises Interrupted where a slot's row is locked by somebody else at the moment.
    """
    slots = session.query(_SLOTS + (" for no key update nowait" if lock else ""))
    return Consumers(
        session.schema,
        tuple(map(slot_position, slots)),
        tuple(
            Watermark(model, slot, lsn.parse(applied), exists)
            for model, slot, applied, exists in session.query(_WATERMARKS)
        ),
        {slot: lsn.parse(at) for slot, at in session.query(_BASELINES)},
        tuple(
            Archive(slot, lsn.parse(first), lsn.parse(end))
            for slot, first, end in session.query(_ARCHIVES)
        ),
    )
