"""The staging schema: made and upgraded by numbered migrations, each in its own transaction."""

from __future__ import annotations

import re
from importlib import resources

from psycopg2 import extensions, sql

from waltally.database import explained
from waltally.errors import StagingTooNew
from waltally.settings import jobs_schema
from waltally.tables import quoted

MADE_BY_SETUP = "Made by loader setup: loader teardown --purge may drop it."
"""The comment of a schema that setup made; one without it was there before and stays."""

_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|cdc\.")
"""A comment, where a quote begins no literal; a literal; the schema in code."""

_LEDGER = """
create table if not exists schema_migration (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    made jsonb not null default '[]'
)
"""

# What this transaction has made, as `drop` names it. An identity is quoted and has the schema.
_MADE = """
update schema_migration set made = (
    select coalesce(jsonb_agg(jsonb_build_array(made.type, made.identity)), '[]')
    from (
        select tableoid, oid from pg_class
        where relnamespace = %(schema)s::regnamespace and relkind in ('r', 'p', 'v')
        and xmin = pg_current_xact_id()::xid
        union all
        select tableoid, oid from pg_proc
        where pronamespace = %(schema)s::regnamespace and xmin = pg_current_xact_id()::xid
        union all
        select type.tableoid, type.oid from pg_type as type
        inner join pg_class as composite on composite.oid = type.typrelid
        where type.typnamespace = %(schema)s::regnamespace and composite.relkind = 'c'
        and type.xmin = pg_current_xact_id()::xid
    ) as ours
    cross join lateral pg_identify_object(ours.tableoid, ours.oid, 0) as made
)
where version = %(version)s
"""


def migrations() -> list[tuple[int, str, str]]:
    """Return (version, name, SQL) of every migration in order."""
    folder = resources.files("loader.staging") / "migrations"
    found = [
        (int(path.name[:4]), path.name, path.read_text())
        for path in folder.iterdir()
        if path.name.endswith(".sql")
    ]
    return sorted(found)


def in_schema(text: str, schema: str) -> str:
    """Return a migration with the schema in place of `cdc`, in its code and in its literals."""
    name = f"{quoted(schema)}."

    def replaced(token: re.Match[str]) -> str:
        return token[0].replace("cdc.", name.replace("'", "''") if token[0][0] == "'" else name)

    return _TOKEN.sub(replaced, text)


def upgrade(connection: extensions.connection, schema: str) -> list[str]:
    """Bring the staging schema to the newest version; return the names of what was applied.

    Safe to repeat and to run concurrently. Raises StagingTooNew, MissingRight.
    """
    applied = []
    with explained("target"), connection, connection.cursor() as cursor:
        # Two concurrent setups would both see no schema. The lock ends with the transaction.
        cursor.execute(
            "select pg_advisory_xact_lock(hashtext('waltally setup'), hashtext(%s))", (schema,)
        )
        for name in (schema, jobs_schema(schema)):
            cursor.execute("select 1 from pg_namespace where nspname = %s", (name,))
            if cursor.fetchone() is None:
                made = sql.Identifier(name)
                cursor.execute(sql.SQL("create schema {}").format(made))
                cursor.execute(sql.SQL("comment on schema {} is %s").format(made), (MADE_BY_SETUP,))
        _enter(cursor, schema)
        cursor.execute("select to_regclass(%s)", (f"{quoted(schema)}.schema_migration",))
        if cursor.fetchone() == (None,):
            cursor.execute(_LEDGER)
        present = _version(cursor)
        for version, name, text in migrations():
            if version > present:
                cursor.execute(in_schema(text, schema))
                cursor.execute(
                    "insert into schema_migration (version, name) values (%s, %s)",
                    (version, name),
                )
                applied.append(name)
        if applied:
            cursor.execute(_MADE, {"schema": quoted(schema), "version": migrations()[-1][0]})
        _refuse_newer(present)
    return applied


def version(connection: extensions.connection, schema: str) -> int:
    """Return the newest migration the schema has, 0 where it has none. Raises StagingTooNew."""
    with explained("target"), connection, connection.cursor() as cursor:
        cursor.execute("select to_regclass(%s)", (f"{quoted(schema)}.schema_migration",))
        if cursor.fetchone() == (None,):
            return 0
        _enter(cursor, schema)
        present = _version(cursor)
    _refuse_newer(present)
    return present


def _enter(cursor: extensions.cursor, schema: str) -> None:
    # A migration makes its tables where search_path points. The bodies of functions run later, in
    # any session: they say `cdc.`, in place of which the schema is written.
    cursor.execute(sql.SQL("set local search_path to {}").format(sql.Identifier(schema)))


def _version(cursor: extensions.cursor) -> int:
    cursor.execute("select coalesce(max(version), 0) from schema_migration")
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _refuse_newer(present: int) -> None:
    known = migrations()[-1][0]
    if present > known:
        raise StagingTooNew(
            f"The staging schema is at version {present}, this loader knows up to {known}",
            "upgrade waltally here to the version that made the schema",
        )
