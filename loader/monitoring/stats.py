"""`loader stats`: one service's counts as the fact has them; no other table is counted or read."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from psycopg2 import extensions, sql

from loader.staging.target_state import LACKS_SEED, rejected_count
from loader.staging.watermarks import MORE_IS_STAGED
from waltally.database import connect, explained
from waltally.errors import NotSetUp, SettingError
from waltally.tables import quoted

JSON_VERSION = 1
"""Increased whenever a field of the JSON changes its meaning or is removed."""

_FACT = "ft_service_stats"

_READABLE = """
select has_schema_privilege(n.oid, 'usage') and bool_and(has_table_privilege(c.oid, 'select'))
from pg_namespace as n
inner join pg_class as c on c.relnamespace = n.oid
where n.nspname = %s and c.relname = any(%s)
group by n.oid
having count(*) = %s
"""

_COUNTS = """
select
    notification_type,
    notification_status,
    sum(count)::bigint,
    sum(live_count)::bigint,
    sum(archived_count)::bigint
from {}.ft_service_stats
where service_id = %s
group by notification_type, notification_status
having bool_or(count <> 0 or live_count <> 0 or archived_count <> 0)
order by notification_type, notification_status
"""

_STAGING = ("change_log", "model_watermark", "slot_position")

# A model has a row for each slot it ever followed; the newest is the one that feeds it now.
_FRESHNESS = f"""
select
    mark.slot_name,
    mark.applied_lsn::text,
    mark.moved_at,
    log.position_lsn::text,
    {MORE_IS_STAGED},
    case when mark.rejected_lsn < mark.applied_lsn then mark.rejected_lsn::text end,
    mark.left_out,
    {LACKS_SEED}
from {{0}}.model_watermark as mark
inner join {{0}}.slot_position as log using (slot_name)
where mark.model_name = %s
order by mark.moved_at desc
limit 1
"""


@dataclass(frozen=True)
class Count:
    """How many notifications of one type have one status."""

    notification_type: str
    notification_status: str
    count: int
    live_count: int
    archived_count: int


@dataclass(frozen=True)
class Freshness:
    """How far the fact has applied the change log."""

    slot: str
    applied_lsn: str
    moved_at: str
    """When the watermark last moved, ISO 8601."""
    position_lsn: str
    is_behind: bool
    """Whether more is staged than the fact has applied."""


@dataclass(frozen=True)
class Stats:
    """A service's counts, and how fresh they are where the role may know that."""

    service_id: str
    counts: list[Count]
    freshness: Freshness | None
    notes: list[str] | None
    """What the counts lack, one sentence per reason; None where this role may not see that."""

    @property
    def total(self) -> int:
        """All of the service's notifications."""
        return sum(each.count for each in self.counts)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON contract (docs/reading.md)."""
        return {
            "version": JSON_VERSION,
            "service_id": self.service_id,
            "total": self.total,
            "counts": [asdict(each) for each in self.counts],
            "notes": self.notes,
            "freshness": None if self.freshness is None else asdict(self.freshness),
        }


def service(text: str) -> str:
    """Return a service's id as the fact has it. Raises SettingError for what is no UUID."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise SettingError(
            f"{text!r} is not a service's id",
            "give a UUID, for instance 8b4b1c3e-6a1f-4c8e-9a65-0d6c6d8f1a52",
        ) from None


def read_stats(target: str, schema: str, dbt_schema: str, service_id: str) -> Stats:
    """Return the counts of a service at one moment; none for an unknown service.

    Raises NotSetUp where the fact was never built, MissingRight, CannotConnect, LoginRefused.
    """
    with closing(connect(target, "target")) as connection:
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with explained("target"), connection, connection.cursor() as cursor:
            cursor.execute(
                "select 1 from pg_class inner join pg_namespace as n on n.oid = relnamespace "
                "where nspname = %s and relname = %s",
                (dbt_schema, _FACT),
            )
            if cursor.fetchone() is None:
                raise NotSetUp(
                    f"There is no table {dbt_schema}.{_FACT} at the target", "`dbt build`"
                )
            cursor.execute(sql.SQL(_COUNTS).format(sql.Identifier(dbt_schema)), (service_id,))
            counts = [Count(*row) for row in cursor]
            return Stats(service_id, counts, *_freshness(cursor, schema, f"{dbt_schema}.{_FACT}"))


def _freshness(
    cursor: extensions.cursor, schema: str, model: str
) -> tuple[Freshness | None, list[str] | None]:
    """Return how fresh the model is and what it lacks; None where a reader may not see that."""
    cursor.execute(_READABLE, (schema, list(_STAGING), len(_STAGING)))
    if cursor.fetchone() != (True,):
        return None, None
    cursor.execute(sql.SQL(_FRESHNESS).format(sql.Identifier(schema)), (model,))
    row = cursor.fetchone()
    if row is None:
        return None, None
    slot, applied, moved_at, position, is_behind, rejected, left_out, lacks_seed = row
    notes = []
    if lacks_seed:
        notes.append(
            "The counts are partial: the fact has no baseline, so rows from before the slot are "
            "missing. Try: `spark-submit spark/seed.py`, then `dbt build`"
        )
    if rejected:
        count = rejected_count(cursor, model, slot)
        notes.append(
            f"{'Some' if count is None else f'{count:,}'} changes, of all services, could not be "
            f"counted, the newest at {rejected}. Try: select * from "
            f"{quoted(model.rpartition('.')[0])}.rejected_changes order by commit_lsn desc;"
        )
    if rows := sum((left_out or {}).values()):
        notes.append(f"{rows:,} rows, of all services, lack a dimension and are left out.")
    return Freshness(slot, applied, moved_at.isoformat(), position, is_behind), notes
