"""`loader teardown`: drop what `loader setup` made, and nothing else."""

from __future__ import annotations

from contextlib import closing

import psycopg2
from psycopg2 import errors as pg

from loader.findings.slot import foreign_slot_finding
from loader.source.slot_admin import (
    drop_origin,
    drop_slot,
    left_slot,
    read_slot,
    require_no_loader,
)
from loader.staging import migrate
from loader.staging.records import SlotPosition
from loader.staging.registration import keep_applies_out
from loader.staging.target_state import read_slot_position
from waltally import lsn
from waltally.database import Target, connect, connect_target
from waltally.errors import LoaderError, NotOurs, SlotInUse
from waltally.settings import Settings, jobs_schema

_MADE = "select jsonb_array_elements(made) from {}.schema_migration"
# Only what belongs to a role that the caller may act as.
_INSTALLED = "select kind, name from {}.marked_object where pg_has_role(owner, 'usage')"
# Tables of ours with rows of a slot: another program may have such tables in this schema.
_OF_SLOTS = """
select c.relname::text
from {}.schema_migration
cross join jsonb_array_elements(made) as object
inner join pg_class as c on c.oid = to_regclass(object ->> 1)
inner join pg_attribute as a on a.attrelid = c.oid and a.attname = 'slot_name'
where object ->> 0 = 'table'
order by 1
"""

# Tables that killed jobs left.
_LEFT_BY_JOBS = """
select c.relname::text
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %s and c.relname ~ '^moved_[0-9a-f]{16}$'
"""


def tear_down(settings: Settings, drop_data: bool) -> list[str]:
    """Drop the slot, with `drop_data` also what is staged for it; return what was done.

    Raises SlotInUse while a loader follows the slot, NotOurs where slot or record are of another
    source or other objects depend on the staged tables; then nothing was dropped.
    """
    done = []
    with (
        closing(connect(settings.source, "source")) as source,
        closing(connect_target(settings)) as target,
    ):
        slot = read_slot(settings, source, target)
        if (other := foreign_slot_finding(slot)) is not None:
            raise other
        if slot.state is not None and slot.state.active_pid is not None:
            raise SlotInUse(
                f"The slot {settings.slot} is in use by pid {slot.state.active_pid}",
                "stop the loader first",
            )
        require_no_loader(target)
        with target.transaction():
            notes = _clear(target, slot.record, drop_data)
            # After the tables were dropped and before that is committed: if the slot cannot be
            # dropped, it keeps its row and the command can be repeated.
            if slot.state is not None:
                drop_slot(source, settings.slot)
                done.append(f"dropped the slot {settings.slot}")
        # Origins belong to the whole cluster, as slots do. That of a slot that we know is ours.
        if slot.record is not None and drop_origin(source, settings.slot):
            done.append("dropped the replication origin")
        if slot.record is not None and slot.state is None:
            done.append(f"the source has no slot {settings.slot}")
    return done + notes


def forget_source(settings: Settings, drop_data: bool) -> list[str]:
    """Do the same without a source, where that is gone for good; return what was done.

    Raises SlotInUse, NotOurs.
    """
    with closing(connect_target(settings)) as target:
        record = read_slot_position(target) if migrate.version(target) else None
        require_no_loader(target)
        with target.transaction():
            done = _clear(target, record, drop_data)
    if record is not None:
        done.append(left_slot(record))
    return done


def _clear(target: Target, record: SlotPosition | None, drop_data: bool) -> list[str]:
    """Delete the slot's row, or what is staged for it, or all of it; return what to say."""
    if not migrate.version(target):
        return []
    # Readers are not ended, and new readers wait behind this lock for 30 s at most.
    target.ask("set local lock_timeout to '30s'")
    deleted = [] if record is None else [_said(record)]
    if not drop_data:
        _delete(target, "slot_position")
        return deleted
    keep_applies_out(target)
    deleted += _models(target)
    query = "select slot_name from {}.slot_position where slot_name <> %s order by slot_name"
    if others := [name for (name,) in target.ask_staging(query, (target.slot,))]:
        for (table,) in target.ask_staging(_OF_SLOTS):
            _delete(target, table)
        return [
            *deleted,
            f"deleted what schema {target.schema} held for the slot; it still holds "
            + ", ".join(others),
        ]
    jobs = jobs_schema(target.schema)
    for (table,) in target.ask(_LEFT_BY_JOBS, (jobs,)):
        target.ask("drop table {}.{}", None, jobs, table)
    _drop_tables(target)
    return deleted + [_drop_schema(target, name) for name in (target.schema, jobs)]


def _said(record: SlotPosition) -> str:
    return (
        f"deleted the record of the slot {record.slot_name}, of database {record.source_database} "
        f"in cluster {record.system_identifier}, which was at {lsn.show(record.position_lsn)}"
    )


def _models(target: Target) -> list[str]:
    """Return what to say of the models' tables, which stay: they are dbt's."""
    names = target.ask_staging(
        "select format('%%I.%%I', n.nspname, c.relname) from pg_class as c "
        "inner join pg_namespace as n on n.oid = c.relnamespace "
        "where n.nspname || '.' || c.relname in ("
        "select relation from {0}.installed_model where slot_name = %s "
        "union select relation from {0}.dependent_model) order by 1",
        (target.slot,),
    )
    if not names:
        return []
    listed = ", ".join(name for (name,) in names)
    return [f"the models' tables stay, with the rows that they had: {listed}"]


def _delete(target: Target, table: str) -> None:
    target.ask_staging("delete from {}.{} where slot_name = %s", (target.slot,), table)


def _drop_tables(target: Target) -> None:
    """Drop what the migrations have noted that they made. Raises NotOurs."""
    kinds = ("view", "index", "function", "table", "type")
    made: dict[str, list[str]] = {kind: [] for kind in kinds}
    for ((kind, identity),) in target.ask_staging(_MADE):
        made[kind].append(identity)
    for kind, name in target.ask_staging(_INSTALLED):
        made[kind].append(name)
    try:
        # Each kind may depend on the next ones.
        for kind, objects in made.items():
            if objects:
                # Without CASCADE: that would also drop what others have built on these.
                target.ask(f"drop {kind} if exists {', '.join(objects)}")
    except LoaderError as error:
        if isinstance(error.__cause__, pg.DependentObjectsStillExist):
            raise _still_needed(error.__cause__, target.schema) from None
        raise


def _still_needed(error: psycopg2.Error, schema: str) -> NotOurs:
    # The detail has a line for each: "view a.b depends on table cdc.change_log".
    lines = (error.diag.message_detail or "").splitlines()
    return NotOurs(
        f"Other objects depend on the tables of schema {schema}, so nothing there is dropped: "
        + "; ".join(lines),
        "`loader teardown` without --drop-data keeps the tables; ask who made what depends on them",
    )


def _drop_schema(target: Target, schema: str) -> str:
    """Drop the schema where setup made it and it is empty; return what to say."""
    comment = "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = %s"
    if target.ask(comment, (schema,)) != [(migrate.MADE_BY_SETUP,)]:
        return f"dropped the tables of setup; the schema {schema} was there before and stays"
    target.ask("savepoint schema")
    try:
        target.ask("drop schema {}", None, schema)
    except LoaderError as error:
        if not isinstance(error.__cause__, pg.DependentObjectsStillExist):
            raise
        target.ask("rollback to savepoint schema")
        return f"dropped the tables of setup; the schema {schema} holds something else and stays"
    return f"dropped the schema {schema}"
