"""Asks the source's catalog for a table's columns and parents; no row is read."""

from __future__ import annotations

from loader.setup.parents import Parent
from loader.setup.proposal import Column
from waltally.database import Connection
from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import Table, format_table

# n_distinct is a number of values, or below zero a share of the rows (PostgreSQL documentation,
# pg_stats). It is null before the first ANALYZE, and where the role may not read the column.
_COLUMNS = """
select
    a.attname::text,
    case when t.typtype = 'e' then 'enum' else format_type(t.oid, null) end,
    a.attnotnull,
    exists (
        select from pg_index as i
        where i.indrelid = a.attrelid and i.indisprimary and a.attnum = any(i.indkey)
    ),
    exists (
        select from pg_constraint as f
        where f.conrelid = a.attrelid and f.contype = 'f' and f.conkey = array[a.attnum]
    ),
    case when s.n_distinct < 0 then -s.n_distinct * greatest(c.reltuples, 0) else s.n_distinct end,
    s.avg_width
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
inner join pg_type as t on t.oid = a.atttypid
left join pg_stats as s
    on s.schemaname = n.nspname and s.tablename = c.relname and s.attname = a.attname
    and s.inherited = (c.relkind = 'p')
where n.nspname = %(schema)s and c.relname = %(name)s and c.relkind in ('r', 'p')
order by a.attnum
"""
_TABLES = """
select n.nspname::text, c.relname::text
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where
    c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
    and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
    -- Neither what setup stages nor what dbt builds.
    and not exists (
        select from pg_class as ours
        where ours.relnamespace = n.oid and ours.relname in ('slot_position', 'rejected_changes')
    )
order by greatest(c.reltuples, 0) desc, 1, 2
limit 10
"""


def read_columns(connection: Connection, table: Table) -> tuple[Column, ...]:
    """Return the table's columns. Raises SettingError where there is no such table."""
    rows = connection.ask(_COLUMNS, {"schema": table.schema, "name": table.name})
    if rows and not table.is_of_the_server:
        return tuple(Column(*row) for row in rows)
    there = ", ".join(format_table(Table(*row)) for row in connection.ask(_TABLES))
    raise SettingError(
        f"{table} is a table of the server's own: no slot has its changes"
        if rows
        else f"The source has no table {table}",
        f"name one with --table, for instance {there}"
        if there
        else "connect to the application's database with --source; this one has no tables",
    )


_LABELS = (
    *("name", "title", "label", "display_name", "full_name", "username", "login", "domain"),
    *("slug", "code", "email", "subject"),
)
"""Usual names of the column that a person knows a row by, the likeliest first."""

# Current rows are found by the primary key, so the column has to lead to it. Many applications have
# no foreign keys: there its name leads to a table of the same schema, as team_id to team or teams.
_PARENTS = """
select distinct on (a.attnum)
    a.attname::text, parents.nspname::text, c.relname::text, k.attname::text,
    format_type(k.atttypid, null), label.attname::text
from pg_class as own
inner join pg_namespace as n on n.oid = own.relnamespace
inner join pg_attribute as a on a.attrelid = own.oid and a.attnum > 0 and not a.attisdropped
left join pg_constraint as f
    on f.contype = 'f' and f.conrelid = own.oid and f.conkey = array[a.attnum]
inner join pg_class as c
    on c.oid <> own.oid and c.relkind in ('r', 'p') and case
        when f.oid is not null then c.oid = f.confrelid
        else c.relnamespace = own.relnamespace and a.attname ~* '._?id$' and c.relname::text = any(
            select regexp_replace(a.attname::text, '_?id$', '', 'i') || ending
            from unnest(array['', 's', 'es']) as ending
            union all
            select regexp_replace(a.attname::text, 'y_?id$', 'ies', 'i')
        )
    end
inner join pg_namespace as parents on parents.oid = c.relnamespace
inner join pg_index as i on i.indrelid = c.oid and i.indisprimary and i.indnkeyatts = 1
inner join pg_attribute as k
    on k.attrelid = c.oid and k.attnum = i.indkey[0] and k.attnum = coalesce(f.confkey[1], k.attnum)
    and k.atttypid = a.atttypid
cross join lateral (
    select l.attname
    from pg_attribute as l
    where
        l.attrelid = c.oid and l.attnum > 0 and not l.attisdropped
        and l.atttypid in ('text'::regtype, 'varchar'::regtype)
        and l.attname::text = any(%(labels)s)
    order by array_position(%(labels)s::text[], l.attname::text)
    limit 1
) as label
where n.nspname = %(schema)s and own.relname = %(name)s
order by a.attnum, f.oid
"""
_KEY_TYPES = ("uuid", "text", "smallint", "integer", "bigint")


def read_parents(connection: Connection, table: Table) -> list[Parent]:
    """Return the parents that have a name that a person knows, in the order of the columns."""
    asked = {"schema": table.schema, "name": table.name, "labels": list(_LABELS)}
    parents = []
    for column, schema, name, key, type_, label in connection.ask(_PARENTS, asked):
        if type_ in _KEY_TYPES and all(escaped(text) == text for text in (schema, name, key)):
            parents.append(Parent(column, Table(schema, name), key, type_, label))
    return parents
