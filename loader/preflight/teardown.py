"""`loader teardown`: take away what `loader setup` made, and nothing else."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions, sql

from loader.preflight import slot_facts
from loader.preflight.slot_admin import drop_origin, drop_slot, slot_not_ours
from loader.staging import migrate
from loader.staging.pruned import IS_LIKE_THE_LOG
from waltally.database import connect, explained
from waltally.errors import NotOurs, SlotInUse
from waltally.settings import Settings

_CREATED = re.compile(r"^create (?:or replace )?(table|function) (\w+) ?(\([^)]*\))?", re.MULTILINE)

_OF_A_SLOT = (
    "historical_rejections",
    "historical_counts",
    "historical_snapshot",
    "archive_position",
    "model_watermark",
    "change_log",
    "slot_position",
)

# A partition that a killed prune has detached, and what a killed seed has left. The columns tell
# such a table from another program's that happens to have the name.
_LEFT_OVER = f"""
select c.relname::text
from pg_class as c
inner join pg_class as log on log.oid = %(log)s::regclass
where c.relnamespace = %(schema)s::regnamespace and c.relkind = 'r'
and (
    c.relname ~ '^change_log_[0-9a-f]{{8}}$'
    and not exists (select from pg_inherits where inhrelid = c.oid)
    and {IS_LIKE_THE_LOG}
    or c.relname ~ '^historical_counts_incoming_[0-9a-f]{{16}}$'
)
"""


def tear_down(settings: Settings, purge: bool) -> list[str]:
    """Drop the slot, with `purge` what is staged for it too; return what was done.

    Raises SlotInUse while a loader follows the slot, NotOurs where the slot is another's or
    something else depends on the staged tables; then nothing was dropped.
    """
    done = []
    with (
        closing(connect(settings.source, "source")) as source,
        closing(connect(settings.target, "target")) as target,
    ):
        facts = slot_facts.read(settings, source, target)
        if (other := slot_not_ours(facts)) is not None:
            raise other
        if facts.state is not None and facts.state.active_pid is not None:
            raise SlotInUse(
                f"The slot {settings.slot} is in use by pid {facts.state.active_pid}",
                "stop the loader first",
            )
        is_staged = bool(migrate.version(target, settings.schema))
        with explained("target"), target, target.cursor() as cursor:
            said = _clear(cursor, settings, purge) if is_staged else []
            # Only when the tables could be dropped, and before that is committed: a slot that
            # stays has its row, so that the command can be repeated.
            if facts.state is not None:
                drop_slot(source, settings.slot)
                done.append(f"dropped the slot {settings.slot}")
            # Origins are the whole cluster's, as slots are: that of a known slot is ours.
            if facts.record is not None and drop_origin(source, settings.slot):
                done.append("dropped the replication origin")
    return done + said


def _clear(cursor: extensions.cursor, settings: Settings, purge: bool) -> list[str]:
    """Delete the slot's row, or what is staged for it, or all of it; return what to say."""
    # Whoever reads the tables is not ended, and new readers do not wait behind us for long.
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
    _drop_tables(cursor, settings.schema)
    return [_drop_schema(cursor, settings.schema)]


def _other_slots(cursor: extensions.cursor, settings: Settings) -> list[str]:
    cursor.execute(
        sql.SQL("select slot_name from {}.slot_position where slot_name <> %s order by 1").format(
            sql.Identifier(settings.schema)
        ),
        (settings.slot,),
    )
    return [str(name) for (name,) in cursor.fetchall()]


def _delete(cursor: extensions.cursor, settings: Settings, tables: tuple[str, ...]) -> None:
    for table in tables:
        cursor.execute(
            sql.SQL("delete from {} where slot_name = %s").format(
                sql.Identifier(settings.schema, table)
            ),
            (settings.slot,),
        )


def _drop_tables(cursor: extensions.cursor, schema: str) -> None:
    """Drop what the migrations in the schema's ledger made. Raises NotOurs."""
    ours = {(version, name): text for version, name, text in migrate.migrations()}
    cursor.execute(
        sql.SQL("select version, name from {}").format(sql.Identifier(schema, "schema_migration"))
    )
    applied = cursor.fetchall()
    made = [found for row in applied for found in _CREATED.findall(ours.get(row, ""))]
    names = {
        "schema": str(sql.Identifier(schema).as_string(cursor)),
        "log": str(sql.Identifier(schema, "change_log").as_string(cursor)),
    }
    cursor.execute(_LEFT_OVER, names)
    tables = [name for (name,) in cursor.fetchall()]
    tables += [name for kind, name, _ in made if kind == "table"]
    if all(row in ours for row in applied):
        tables.append("schema_migration")
    try:
        # Without cascade: that would take along what others have built on the tables.
        cursor.execute(
            sql.SQL("drop table if exists {}").format(
                sql.SQL(", ").join(sql.Identifier(schema, name) for name in tables)
            )
        )
        for kind, name, arguments in made:
            if kind == "function":
                cursor.execute(
                    sql.SQL("drop function if exists {}{}").format(
                        sql.Identifier(schema, name), sql.SQL(arguments)
                    )
                )
    except pg.DependentObjectsStillExist as error:
        raise _still_needed(error, schema) from None


def _still_needed(error: psycopg2.Error, schema: str) -> NotOurs:
    # The detail has a line for each: "view a.b depends on table cdc.change_log".
    lines = (error.diag.message_detail or "").splitlines()
    return NotOurs(
        f"Other objects stand on the tables of schema {schema}, so nothing there is dropped: "
        + "; ".join(lines),
        "drop these first, or keep the tables: loader teardown",
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
