"""`loader teardown`: drop what `loader setup` made, and nothing else."""

from __future__ import annotations

from contextlib import closing

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.preflight import slot_facts
from loader.preflight.begin_log import writable
from loader.preflight.slot_admin import drop_origin, drop_slot, foreign_slot_finding
from loader.staging import migrate
from loader.staging.layout import PARTITION_NAME
from loader.staging.pruned import IS_LIKE_THE_LOG
from loader.staging.target_state import SLOT_POSITIONS, slot_position
from waltally.database import connect, explained
from waltally.errors import NotOurs, SlotInUse
from waltally.settings import Settings, jobs_schema
from waltally.tables import Table, quoted

_MADE = "select jsonb_array_elements(made) from {}"
# The functions that dbt has installed give a type of ours, and cdc.apply alone may call them.
# They are taken from the catalog: dbt's role could choose the names that it registers.
_INSTALLED = """
select p.oid::regprocedure::text
from pg_proc as p
inner join pg_type as given on given.oid = p.prorettype
where
    given.typnamespace = %(schema)s::regnamespace
    and given.typname in ('outcome', '_change')
    and p.pronamespace <> given.typnamespace
    and pg_has_role(p.proowner, 'usage')
"""
_OF_A_SLOT = (
    "baseline_rejection",
    "baseline_group",
    "baseline",
    "fact",
    "archive_position",
    "archived_delete",
    "installed_model",
    "model_watermark",
    "reader_position",
    "logged_table",
    "change_log",
    "slot_position",
)

# Partitions that a killed prune detached. A table of another program may have such a name; its
# columns differ.
_LEFT_OVER = f"""
select c.relname::text
from pg_class as c
inner join pg_class as log on log.oid = %(log)s::regclass
where c.relnamespace = %(schema)s::regnamespace and c.relkind = 'r'
and c.relname ~ '{PARTITION_NAME}'
and not exists (select from pg_inherits where inhrelid = c.oid)
and {IS_LIKE_THE_LOG}
"""

# Tables that a killed seed left.
_LEFT_BY_JOBS = """
select c.relname::text
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %s and c.relname ~ '^baseline_group_incoming_[0-9a-f]{16}$'
"""


def tear_down(settings: Settings, purge: bool) -> list[str]:
    """Drop the slot, with `purge` also what is staged for it; return what was done.

    Raises SlotInUse while a loader follows the slot, NotOurs where the slot is not ours or other
    objects depend on the staged tables; then nothing was dropped.
    """
    done = []
    with (
        closing(connect(settings.source, "source")) as source,
        closing(connect(settings.target, "target")) as target,
    ):
        facts = slot_facts.read_facts(settings, source, target)
        if (other := foreign_slot_finding(facts)) is not None:
            raise other
        if facts.state is not None and facts.state.active_pid is not None:
            raise SlotInUse(
                f"The slot {settings.slot} is in use by pid {facts.state.active_pid}",
                "stop the loader first",
            )
        is_staged = bool(migrate.version(target, settings.schema))
        with explained("target"), target, target.cursor() as cursor:
            said = _clear(cursor, settings, purge) if is_staged else []
            # After the tables were dropped and before that is committed: if the slot cannot be
            # dropped, it keeps its row and the command can be repeated.
            if facts.state is not None:
                drop_slot(source, settings.slot)
                done.append(f"dropped the slot {settings.slot}")
        # Origins belong to the whole cluster, as slots do. That of a slot that we know is ours.
        if facts.record is not None and drop_origin(
            writable(facts.server, source, target), settings.slot
        ):
            done.append("dropped the replication origin")
    return done + said


def _clear(cursor: extensions.cursor, settings: Settings, purge: bool) -> list[str]:
    """Delete the slot's row, or what is staged for it, or all of it; return what to say."""
    # Readers are not ended, and new readers wait behind this lock for 30 s at most.
    cursor.execute("set local lock_timeout to '30s'")
    if not purge:
        _delete(cursor, settings, ("slot_position",))
        return []
    if others := _other_slots(cursor, settings):
        _delete(cursor, settings, _OF_A_SLOT)
        return [
            f"deleted what schema {settings.schema} held for the slot; it still holds "
            + ", ".join(others)
        ]
    jobs = jobs_schema(settings.schema)
    cursor.execute(_LEFT_BY_JOBS, (jobs,))
    for (table,) in cursor.fetchall():
        cursor.execute(sql.SQL("drop table {}").format(sql.Identifier(jobs, table)))
    _drop_tables(cursor, settings.schema)
    return [_drop_schema(cursor, name) for name in (settings.schema, jobs)]


def _other_slots(cursor: extensions.cursor, settings: Settings) -> list[str]:
    query = sql.SQL(f"{SLOT_POSITIONS} where slot_name <> %s order by slot_name")
    cursor.execute(query.format(sql.Identifier(settings.schema)), (settings.slot,))
    return [slot_position(row).slot_name for row in cursor.fetchall()]


def _delete(cursor: extensions.cursor, settings: Settings, tables: tuple[str, ...]) -> None:
    for table in tables:
        cursor.execute(
            sql.SQL("delete from {} where slot_name = %s").format(
                sql.Identifier(settings.schema, table)
            ),
            (settings.slot,),
        )


def _drop_tables(cursor: extensions.cursor, schema: str) -> None:
    """Drop what the migrations have noted that they made. Raises NotOurs."""
    cursor.execute(sql.SQL(_MADE).format(sql.Identifier(schema, "schema_migration")))
    made: dict[str, list[str]] = {"view": [], "table": [], "function": [], "type": []}
    for ((kind, identity),) in cursor.fetchall():
        made[kind].append(identity)
    place = {"schema": quoted(schema), "log": Table(schema, "change_log").quoted}
    cursor.execute(_LEFT_OVER, place)
    made["table"] += [Table(schema, name).quoted for (name,) in cursor.fetchall()]
    cursor.execute(_INSTALLED, place)
    made["function"] += [signature for (signature,) in cursor.fetchall()]
    try:
        # Each kind may depend on the next ones.
        for kind, objects in made.items():
            if objects:
                # Without CASCADE: that would also drop what others have built on these.
                cursor.execute(f"drop {kind} if exists {', '.join(objects)}")
    except pg.DependentObjectsStillExist as error:
        raise _still_needed(error, schema) from None


def _still_needed(error: psycopg2.Error, schema: str) -> NotOurs:
    # The detail has a line for each: "view a.b depends on table cdc.change_log".
    lines = (error.diag.message_detail or "").splitlines()
    return NotOurs(
        f"Other objects depend on the tables of schema {schema}, so nothing there is dropped: "
        + "; ".join(lines),
        "drop these first, or keep the tables: `loader teardown` without --purge",
    )


def _drop_schema(cursor: extensions.cursor, schema: str) -> str:
    """Drop the schema where setup made it and it is empty; return what to say."""
    cursor.execute(
        "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = %s",
        (schema,),
    )
    if cursor.fetchone() != (migrate.MADE_BY_SETUP,):
        return f"dropped the tables of setup; the schema {schema} was there before and stays"
    cursor.execute("savepoint schema")
    try:
        cursor.execute(sql.SQL("drop schema {}").format(sql.Identifier(schema)))
    except pg.DependentObjectsStillExist:
        cursor.execute("rollback to savepoint schema")
        return f"dropped the tables of setup; the schema {schema} holds something else and stays"
    return f"dropped the schema {schema}"
