"""Asks who still needs the change log."""

from __future__ import annotations

from loader.staging.log_consumers import Archive, Consumers, Model, Reader
from loader.staging.prune_session import PruneSession
from loader.staging.target_state import SLOT_POSITIONS, slot_position
from waltally import lsn

_SLOTS = f"{SLOT_POSITIONS} order by slot_name"
# plan_models is what the view fact_state is made of.
_MODELS = """
select
    plans.model_name,
    plans.fact_name,
    plans.slot_name,
    exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = plans.model_name
    ),
    plans.reason,
    plans.remedy,
    plans.step is not distinct from 'rebuild',
    plans.applied_lsn,
    plans.snapshot_lsn
from {0}.slot_position as log
cross join lateral {0}.plan_models(log.slot_name) as plans
order by plans.model_name
"""
_READERS = "select reader, slot_name, applied_lsn from {0}.reader_position order by reader"
_ARCHIVES = "select slot_name, from_lsn, archived_lsn, location from {0}.archive_position"
_STILL = "select slot_name, extract(epoch from now() - moved_at)::float8 from {0}.slot_position"


def read_consumers(session: PruneSession, lock: bool = False) -> Consumers:
    """Return who needs the log; `lock` keeps the slots' rows from changing.

    Raises Interrupted where a slot's row is locked by somebody else at the moment.
    """
    slots = session.query(_SLOTS + (" for no key update nowait" if lock else ""))
    return Consumers(
        session.schema,
        tuple(map(slot_position, slots)),
        tuple(
            Model(
                name,
                fact,
                slot,
                exists,
                reason,
                remedy,
                is_rebuilt,
                lsn.parse(applied) if applied else None,
                lsn.parse(at) if at else None,
            )
            for name, fact, slot, exists, reason, remedy, is_rebuilt, applied, at in (
                session.query(_MODELS)
            )
        ),
        tuple(
            Reader(name, slot, lsn.parse(applied))
            for name, slot, applied in session.query(_READERS)
        ),
        tuple(
            Archive(slot, lsn.parse(first), lsn.parse(end), location)
            for slot, first, end, location in session.query(_ARCHIVES)
        ),
        dict(session.query(_STILL)),
    )
