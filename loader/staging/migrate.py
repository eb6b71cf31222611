"""The staging schema: tables and types by numbered migrations, functions and views by their files.

A migration runs once. Functions and views are replaced as a whole whenever their files differ from
what the schema has, so a change of one is a diff of one file. Both in one transaction.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

from waltally import locks
from waltally.database import Target
from waltally.errors import StagingTooNew
from waltally.settings import jobs_schema
from waltally.tables import quoted

MADE_BY_SETUP = "Made by loader setup: loader teardown --drop-data may drop it."
"""The comment of a schema that setup made; one without it was there before and stays."""

_TOKEN = re.compile(r"--[^\n]*|(?:\be)?'(?:[^']|'')*'|cdc\.")
"""A comment, where a quote begins no literal; a literal; the schema in code."""

_LEDGER = """
create table if not exists schema_migration (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    made jsonb not null default '[]'
)
"""

# Notes what this transaction has made, as `drop` names it. An identity is quoted and qualified.
_MADE = """
with ours as (
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
)

update schema_migration set made = (
    select coalesce(jsonb_agg(distinct made), '[]')
    from (
        select jsonb_array_elements(schema_migration.made)
        union all
        select jsonb_build_array(object.type, object.identity)
        from ours
        cross join lateral pg_identify_object(ours.tableoid, ours.oid, 0) as object
    ) as known (made)
)
where version = %(version)s
"""
# Functions that an older version made and that are in no file any more.
_LEFT_OVER = """
select known.object ->> 1
from schema_migration as ledger
cross join lateral jsonb_array_elements(ledger.made) as known (object)
inner join pg_proc as p on p.oid = to_regprocedure(known.object ->> 1)
where known.object ->> 0 = 'function' and p.xmin <> pg_current_xact_id()::xid
"""
# A function, so that every role that may call the others may ask for it.
_SAY_WHICH = """
create or replace function functions_id() returns text
language sql immutable parallel safe as $$ select '{}' $$
"""


def _texts(folder: Traversable) -> list[str]:
    paths = sorted(folder.iterdir(), key=lambda path: path.name)
    files = [path.read_text() for path in paths if path.name.endswith(".sql")]
    return files + [text for path in paths if path.is_dir() for text in _texts(path)]


@cache
def functions() -> tuple[str, ...]:
    """Return the SQL of every function, then that of the views, which are made of functions."""
    folder = resources.files("loader.staging")
    return (*_texts(folder / "functions"), *_texts(folder / "views"))


def functions_id() -> str:
    """Return what tells this version's functions and views from those of another one."""
    return sha256("\0".join(functions()).encode()).hexdigest()[:16]


def migrations() -> list[tuple[int, str, str]]:
    """Return (version, name, SQL) of every migration in order."""
    folder = resources.files("loader.staging") / "migrations"
    files = [
        (int(path.name[:4]), path.name, path.read_text())
        for path in folder.iterdir()
        if path.name.endswith(".sql")
    ]
    return sorted(files)


def in_schema(text: str, schema: str) -> str:
    """Return a migration with the schema in place of `cdc`, in its code and in its literals."""
    name = f"{quoted(schema)}."
    in_literal = name.replace("'", "''")
    names = {"'": in_literal, "e": in_literal.replace("\\", "\\\\")}

    def replaced(token: re.Match[str]) -> str:
        return token[0].replace("cdc.", names.get(token[0][0], name))

    return _TOKEN.sub(replaced, text)


def upgrade(target: Target) -> list[str]:
    """Bring the staging schema to the newest version; return what was done.

    Safe to repeat and to run concurrently. Raises StagingTooNew, MissingRight.
    """
    with target.transaction():
        return install(target)


def install(target: Target) -> list[str]:
    """As `upgrade`, in the open transaction."""
    done = []
    # Two concurrent setups would both see no schema. The lock ends with the transaction.
    locks.wait(target, "setup", target.schema)
    for name in (target.schema, jobs_schema(target.schema)):
        if not target.ask("select 1 from pg_namespace where nspname = %s", (name,)):
            target.ask("create schema {}", None, name)
            target.ask("comment on schema {} is %s", (MADE_BY_SETUP,), name)
    # A migration makes its tables where search_path points. The bodies of functions run later,
    # in any session: they say `cdc.`, in place of which the schema is written.
    target.ask_staging("set local search_path to {}")
    # Left as they are where they are the same: a role that does not own them may repeat setup.
    has_others = has_other_functions(target)
    if not (present := version(target)):
        target.ask(_LEDGER)
    elif has_others:
        _lock_views(target)
    for number, name, text in migrations():
        if number > present:
            target.ask(in_schema(text, target.schema))
            target.ask(
                "insert into schema_migration (version, name) values (%s, %s)", (number, name)
            )
            done.append(f"applied {name} in schema {target.schema}")
    if has_others:
        _replace_functions(target)
        done.append(f"made the functions of schema {target.schema}")
    if done:
        target.ask(_MADE, {"schema": quoted(target.schema), "version": migrations()[-1][0]})
    if has_others:
        for (identity,) in target.ask(_LEFT_OVER):
            target.ask(f"drop function {identity}")
    return done


def _lock_views(target: Target) -> None:
    """Keep readers of the views out until the transaction ends, before all else is locked.

    In the order in which they lock them, the uppermost first, so that nobody waits for each other.
    """
    views = (resources.files("loader.staging") / "views").iterdir()
    for file in sorted((path.name for path in views), reverse=True):
        # It changes nothing. LOCK TABLE would lock the tables of a view too.
        view = file[2:].removesuffix(".sql")
        target.ask_staging("alter view if exists {}.{} reset (security_barrier)", None, view)


def _replace_functions(target: Target) -> None:
    # Each may call any other one, so bodies are looked at when all are there: by a test.
    target.ask("set local check_function_bodies to off")
    for text in functions():
        target.ask(in_schema(text, target.schema))
    target.ask(_SAY_WHICH.replace("{}", functions_id()))


def stored_functions_id(target: Target) -> str | None:
    """Return which version's functions the schema has; None where it has none."""
    name = f"{target.table('functions_id')}()"
    if target.ask("select to_regprocedure(%s)", (name,)) == [(None,)]:
        return None
    ((stored,),) = target.ask(f"select {name}")
    return str(stored)


def has_other_functions(target: Target) -> bool:
    """Return whether the schema lacks the functions of this version."""
    return stored_functions_id(target) != functions_id()


def version(target: Target) -> int:
    """Return the newest migration the schema has, 0 where it has none. Raises StagingTooNew."""
    if target.ask("select to_regclass(%s)", (target.table("schema_migration"),)) == [(None,)]:
        return 0
    ((present,),) = target.ask_staging("select coalesce(max(version), 0) from {}.schema_migration")
    known = migrations()[-1][0]
    if present > known:
        raise StagingTooNew(
            f"The staging schema is at version {present}, this loader knows up to {known}",
            "use the waltally that made the schema here; or, to begin again with this one: "
            "`loader teardown --drop-data` of that one, then `loader setup` and a seed",
        )
    return int(present)
