"""Asks the source's catalog for a table's columns; no row is read."""

from __future__ import annotations

from loader.setup.proposal import Column
from waltally.database import Connection
from waltally.errors import SettingError
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
    quote_ident(a.attname),
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
