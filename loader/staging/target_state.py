"""What the target holds of a slot, and the call that applies what is staged."""

from __future__ import annotations

from typing import Any, Literal

from psycopg2 import errors as pg

from loader.staging.migrate import has_other_functions
from loader.staging.records import (
    MODEL_STATE,
    Baseline,
    ModelState,
    ModelStatus,
    Reasons,
    SlotPosition,
    StoredState,
    other_functions,
    rejection_remedy,
)
from loader.staging.registration import read_registration
from waltally import failpoints, lsn
from waltally.database import Connection, Target
from waltally.errors import NotSetUp
from waltally.holder import Holder

APPLIER = "waltally apply"
"""The name of the sessions in which a loader has the database apply."""

SETUP_REMEDY = "run `loader setup` with the same LOADER_SLOT, LOADER_SCHEMA and target"

_SLOT_POSITION = """
json_build_object(
    'slot_name', slot_name,
    'system_identifier', system_identifier,
    'source_database', source_database,
    'start_lsn', start_lsn - '0/0',
    'position_lsn', position_lsn - '0/0',
    'stored_changes', stored_changes,
    'timeline', timeline,
    'timeline_began_lsn', timeline_began_lsn - '0/0',
    'baseline_lsn', (
        select max(baseline.snapshot_lsn) - '0/0' from {0}.baseline
        where baseline.slot_name = slot_position.slot_name
    )
)
"""


_STATE = f"""
select
    {_SLOT_POSITION},
    to_json(moved_at),
    {{0}}.seconds_since(moved_at),
    to_json(newest.committed_at),
    to_json(exact.as_of),
    {{0}}.seconds_since(exact.as_of)
from {{0}}.slot_position
cross join lateral {{0}}.exact_as_of(slot_name) as exact (as_of)
left join lateral (
    select log.committed_at from {{0}}.change_log as log
    where log.slot_name = slot_position.slot_name
    order by log.slot_name desc, log.commit_lsn desc, log.ordinal desc
    limit 1
) as newest on true
where slot_name = %s
"""
_RECORD = f"select {_SLOT_POSITION} from {{0}}.slot_position where slot_name = %s"


def read_stored(target: Target) -> StoredState | None:
    """Return what is stored, None where the slot has no row. Raises LoaderError."""
    _require_functions(target)
    with target.transaction():
        # One snapshot, taken before each statement is planned: else one could show a position and
        # lack the partition with its changes, which was attached in between.
        target.ask("set transaction isolation level repeatable read")
        rows = target.ask_staging(_STATE, (target.slot,))
        if not rows:
            return None
        registered = read_registration(target)
        models = _read_models(target)
    record, *times = rows[0]
    return StoredState(SlotPosition(**record), registered, models, *times)


def _require_functions(target: Target) -> None:
    if has_other_functions(target):
        raise other_functions(target.schema)


def read_slot_position(target: Target) -> SlotPosition | None:
    """Return a slot's row in slot_position, None where it has none. Raises NotSetUp."""
    try:
        rows = target.ask_staging(_RECORD, (target.slot,))
    except NotSetUp as error:
        if isinstance(error.__cause__, pg.UndefinedColumn):
            raise NotSetUp(
                f"The schema {target.schema} was made by an older loader", "run `loader setup`"
            ) from None
        raise NotSetUp(
            f"Nothing is set up in schema {target.schema} of the target",
            "`loader setup`, then `dbt build`, then `spark-submit spark/seed.py`",
        ) from None
    return SlotPosition(**rows[0][0]) if rows else None


def require_slot_position(target: Target) -> SlotPosition:
    """Return a slot's row in slot_position.

    Raises NotSetUp where it has none, or where another version made the schema's functions.
    """
    position = read_slot_position(target)
    _require_functions(target)
    if position is None:
        raise NotSetUp(
            f"The slot {target.slot} has no row in {target.schema}.slot_position", SETUP_REMEDY
        )
    return position


LISTED = """
select n.nspname
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_attribute as a on a.attrelid = c.oid and a.attname = 'model_name'
where
    c.relname = 'rejected_changes'
    and has_schema_privilege(n.oid, 'usage')
    and has_table_privilege(c.oid, 'select')
    and starts_with(%s, n.nspname || '.')
"""
"""SQL: the schema with the list of what a model rejected, where this role may read it."""

_REJECTED = """
select reason, count(*) from {}.rejected_changes where model_name = %s and slot_name = %s
group by reason order by reason
"""

_MAY_READ = "select has_table_privilege(to_regclass(%s), 'select')"
_REJECTED_ROWS = """
select model_name, reason, sum(row_count)::bigint from {}.baseline_rejection
where slot_name = %s group by model_name, reason order by model_name, reason
"""


def _read_models(target: Target) -> tuple[ModelStatus, ...]:
    """Return the registered models of a slot, and what other dbt targets have installed of them."""
    uncounted = _rejected_rows(target)
    models = []
    for name, row in target.ask_staging("select * from {}.model_status(%s)", (target.slot,)):
        baseline, held_by = None, row["held_by"]
        if row["baseline"] is not None:
            of_rows = None if uncounted is None else uncounted.get(name, {})
            baseline = Baseline(**row["baseline"], **_rejected(of_rows))
        is_rejected = row["rejected_lsn"] is not None
        reasons = rejected_reasons(target, row["relation"], target.slot) if is_rejected else {}
        models.append(
            ModelStatus(
                **{**row, "baseline": baseline, "held_by": held_by and Holder(**held_by)},
                **_rejected(reasons),
                rejected_remedy=rejection_remedy(name) if is_rejected else None,
            )
        )
    return tuple(models)


def _rejected(reasons: Reasons | None) -> dict[str, Any]:
    count = None if reasons is None else sum(reasons.values())
    return {"rejected_count": count, "rejected_reasons": reasons}


def _rejected_rows(target: Target) -> dict[str, dict[str, int]] | None:
    """Return by model and reason how many rows the baselines could not count."""
    if target.ask(_MAY_READ, (target.table("baseline_rejection"),)) != [(True,)]:
        return None
    rejected: dict[str, dict[str, int]] = {}
    for name, reason, count in target.ask_staging(_REJECTED_ROWS, (target.slot,)):
        rejected.setdefault(name, {})[reason] = count
    return rejected


def rejected_reasons(target: Connection, relation: str, slot: str) -> dict[str, int] | None:
    """Return by reason the changes of a slot that a model rejected.

    None where this role may not see that.
    """
    schemas = target.ask(LISTED, (relation,))
    return dict(target.ask(_REJECTED, (relation, slot), *schemas[0])) if schemas else None


Part = Literal["all", "caught up", "catching up"]
"""The models that have caught up, at one position; those that catch up, one at a call; or both."""


def apply(target: Target, part: Part = "all", until: int | None = None) -> list[ModelState]:
    """Apply what is staged, in one transaction: the call itself, which saves two messages.

    With `caught up` it returns only these models. With `until` no model is brought further
    than to this position. Raises LoaderError.
    """
    call = f"select {MODEL_STATE}, is_behind, is_finding from {{}}.apply(%s, %s, %s)"
    end = None if until is None else lsn.show(until)
    rows = target.ask_staging(call, (target.slot, end, part))
    failpoints.reach("applied")
    return [ModelState.of(row) for row in rows]


def newest_rejections(target: Target) -> dict[str, int]:
    """Return, by relation, the newest change that it could not count; nothing of one without."""
    rows = target.ask_staging(
        "select relation, rejected_lsn from {}.model_watermark "
        "where slot_name = %s and rejected_lsn is not null",
        (target.slot,),
    )
    return {relation: lsn.parse(rejected) for relation, rejected in rows}


def newest_age(target: Target, begin: int, end: int) -> float | None:
    """Return how long ago, in seconds, the newest change between two positions was committed.

    None where there is none. Raises LoaderError.
    """
    rows = target.ask_staging(
        "select extract(epoch from clock_timestamp() - committed_at)::float8 from {}.change_log "
        "where slot_name = %s and commit_lsn >= %s and commit_lsn < %s "
        "order by slot_name desc, commit_lsn desc, ordinal desc limit 1",
        (target.slot, lsn.show(begin), lsn.show(end)),
    )
    return max(0.0, rows[0][0]) if rows else None
