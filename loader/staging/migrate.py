"""The staging schema: made and upgraded by numbered migrations, each in its own transaction."""

from __future__ import annotations

import re
from importlib import resources

from waltally import locks
from waltally.database import Target
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


def upgrade(target: Target) -> list[str]:
    """Bring the staging schema to the newest version; return the names of what was applied.

    Safe to repeat and to run concurrently. Raises StagingTooNew, MissingRight.
    """
    applied = []
    with target.transaction():
        # Two concurrent setups would both see no schema. The lock ends with the transaction.
        locks.wait(target, "setup", target.schema)
        for name in (target.schema, jobs_schema(target.schema)):
            if not target.ask("select 1 from pg_namespace where nspname = %s", (name,)):
                target.ask("create schema {}", None, name)
                target.ask("comment on schema {} is %s", (MADE_BY_SETUP,), name)
        # A migration makes its tables where search_path points. The bodies of functions run later,
        # in any session: they say `cdc.`, in place of which the schema is written.
        target.ask_staging("set local search_path to {}")
        if not (present := version(target)):
            target.ask(_LEDGER)
        for number, name, text in migrations():
            if number > present:
                target.ask(in_schema(text, target.schema))
                target.ask(
                    "insert into schema_migration (version, name) values (%s, %s)", (number, name)
                )
                applied.append(name)
        if applied:
            target.ask(_MADE, {"schema": quoted(target.schema), "version": migrations()[-1][0]})
    return applied


def version(target: Target) -> int:
    """Return the newest migration the schema has, 0 where it has none. Raises StagingTooNew."""
    if target.ask("select to_regclass(%s)", (target.table("schema_migration"),)) == [(None,)]:
        return 0
    ((present,),) = target.ask_staging("select coalesce(max(version), 0) from {}.schema_migration")
    known = migrations()[-1][0]
    if present > known:
        raise StagingTooNew(
            f"The staging schema is at version {present}, this loader knows up to {known}",
            "upgrade waltally here to the version that made the schema",
        )
    return int(present)
