"""Asks who still needs the change log."""

from __future__ import annotations

from loader.staging.log_consumers import Archive, Consumers, RegisteredFact, Watermark
from loader.staging.prune_session import PruneSession
from loader.staging.target_state import SLOT_POSITIONS, slot_position
from waltally import lsn

_SLOTS = f"{SLOT_POSITIONS} order by slot_name"
_WATERMARKS = """
select
    mark.model_name,
    mark.slot_name,
    mark.applied_lsn,
    exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = mark.model_name
    ),
    case when mark.declaration is distinct from fact.declaration then fact.fact_name end
from {0}.model_watermark as mark
left join {0}.fact
    on fact.slot_name = mark.slot_name
    and fact.relation_schema || '.' || fact.relation_name = mark.model_name
order by mark.model_name
"""
# A rebuild cannot start from a baseline of another cluster than the slot's, or of a declaration
# that is no longer the fact's.
_FACTS = """
select
    fact.fact_name,
    fact.slot_name,
    fact.relation_schema || '.' || fact.relation_name,
    (
        select baseline.snapshot_lsn from {0}.baseline
        where baseline.slot_name = fact.slot_name and baseline.fact_name = fact.fact_name
        and baseline.declaration = fact.declaration
        and baseline.system_identifier = log.system_identifier
    ),
    exists (
        select from {0}.baseline
        where baseline.slot_name = fact.slot_name
        and baseline.system_identifier = log.system_identifier
    )
from {0}.fact
inner join {0}.slot_position as log on log.slot_name = fact.slot_name
order by fact.fact_name
"""
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
            Watermark(model, slot, lsn.parse(applied), exists, waiting)
            for model, slot, applied, exists, waiting in session.query(_WATERMARKS)
        ),
        tuple(
            RegisteredFact(name, slot, relation, lsn.parse(at) if at else None, is_seeded)
            for name, slot, relation, at, is_seeded in session.query(_FACTS)
        ),
        tuple(
            Archive(slot, lsn.parse(first), lsn.parse(end), location)
            for slot, first, end, location in session.query(_ARCHIVES)
        ),
        dict(session.query(_STILL)),
    )
