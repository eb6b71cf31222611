"""Messages with which the source reports DDL, where its administrator ran note_ddl.sql."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from waltally.database import Connection
from waltally.errors import NotSetUp
from waltally.tables import quoted

_SQL = Path(__file__).with_name("note_ddl.sql")

INSTALLED = "(select oid from pg_event_trigger where evtname = 'waltally_rewrite')"
"""SQL whose value changes when note_ddl.sql is run, or when its event trigger is dropped."""

# Anybody with the right to make schemas may have made one of this name. Only an administrator can
# make event triggers, so the trigger's function and the table must belong to the schema's owner.
_IS_READABLE = """
select count(*) = 2
from pg_event_trigger as e
inner join pg_proc as p on p.oid = e.evtfoid
inner join pg_namespace as n on n.oid = p.pronamespace
inner join pg_class as c on c.relnamespace = n.oid
where
    n.nspname = 'waltally'
    and c.relname = 'ddl_prefix'
    and c.relkind = 'r'
    and array[p.proowner, c.relowner] <@ array[n.nspowner]
    and e.evtenabled <> 'D'
    and has_schema_privilege(n.oid, 'usage')
    and has_table_privilege(c.oid, 'select')
"""
_PREFIX = "select prefix from waltally.ddl_prefix"

# What decides of which DDL the source tells: the functions, and the commands they are called for.
_MADE = """
select p.prosrc
from pg_proc as p
inner join pg_namespace as n on n.oid = p.pronamespace
where n.nspname = 'waltally'
union all
select string_agg(quote_literal(tag), ', ')
from pg_event_trigger as e
cross join unnest(e.evttags) as tag
where e.evtname = 'waltally_rename'
"""
_PARTS = re.compile(r"(?s) as \$\$(.*?)\$\$|tag in \((.*?)\)")
"""The same in note_ddl.sql."""


def read_prefix(source: Connection) -> str | None:
    """Return the text with which the messages begin; None where this role can read none."""
    if source.ask(_IS_READABLE) != [(True,)]:
        return None
    rows = source.ask(_PREFIX)
    return str(rows[0][0]) if rows else None


def read_trigger(source: Connection) -> int | None:
    """Return the oid of the event trigger that reports DDL; None where there is none."""
    ((trigger,),) = source.ask(f"select {INSTALLED}::bigint")
    return None if trigger is None else int(trigger)


def missing_note(source: Connection) -> str | None:
    """Return how the source can be made to report DDL to this role; None where it does."""
    if read_prefix(source) is not None:
        return None
    role = source.info.user
    if read_trigger(source) is not None:
        return (
            "The source reports DDL, but not to this role. As the role that ran note_ddl.sql: "
            f"grant usage on schema waltally to {quoted(role)}; grant select on "
            f"waltally.ddl_prefix to {quoted(role)}; -- then restart `loader run`"
        )
    return (
        "DDL that changes rows without writing their changes is not noticed (set unlogged, alter "
        "column … using, columns or schemas that change names). To make the models wait for a seed "
        f"then, run as a superuser of the source: {_command(source)}"
    )


def find_outdated(source: Connection) -> list[NotSetUp]:
    """Return a finding where the source tells of DDL as another version of waltally does."""
    made = {text for (text,) in source.ask(_MADE)}
    parts = {body or tags for body, tags in _PARTS.findall(_SQL.read_text())}
    if read_trigger(source) is None or parts <= made:
        return []
    return [
        NotSetUp(
            "The source tells of DDL by functions of another version of waltally, and what they "
            "leave out is not noticed",
            f"run as a superuser of the source: {_command(source)}",
        )
    ]


def _command(source: Connection) -> str:
    loader = f"loader={source.info.user}"
    return shlex.join(["psql", "-d", source.info.dbname, "-v", loader, "-f", str(_SQL)])
