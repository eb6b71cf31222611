"""Asks the source's catalog for a table's columns; no row is read."""

from __future__ import annotations

from loader.setup.cost import Column
from waltally.database import Connection
from waltally.tables import Table

# The width is null before the first ANALYZE, and where the role may not read the column.
_COLUMNS = """
select
    a.attname::text,
    exists (
        select from pg_index as i
        where i.indrelid = a.attrelid and i.indisprimary and a.attnum = any(i.indkey)
    ),
    s.avg_width
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_stats as s
    on s.schemaname = n.nspname and s.tablename = c.relname and s.attname = a.attname
    and s.inherited = (c.relkind = 'p')
where n.nspname = %(schema)s and c.relname = %(name)s and c.relkind in ('r', 'p')
order by a.attnum
"""


def read_columns(connection: Connection, table: Table) -> tuple[Column, ...]:
    """Return the table's columns."""
    rows = connection.ask(_COLUMNS, {"schema": table.schema, "name": table.name})
    return tuple(Column(*row) for row in rows)
