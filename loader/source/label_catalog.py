"""Asks a server's catalog what the columns that models need are, and for the labels of their enums.

A label keeps its oid when it is renamed, and then stored changes have its old name, while the old
rows of changes to come have the new one. So it is with an attribute that a composite gets. Between
timestamp and timestamptz ALTER TABLE may change a column without writing its rows, and another
primary key tells a table's rows apart by other columns. A name may come to mean another table or
column, whose rows no change has brought.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from loader.source.table import READ_ALIKE
from loader.staging.logged_tables import Labels
from waltally import lsn
from waltally.database import Connection
from waltally.models import Model, identity_columns, needed_columns, source_tables
from waltally.tables import Table

TYPES_WITHIN = """
    cross join lateral (
        select t.typelem
        union all
        select t.typbasetype
        union all
        select r.rngsubtype from pg_range as r
        where t.oid in (r.rngtypid, r.rngmultitypid)
        union all
        select a.atttypid
        from pg_attribute as a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ) as inner_type (type)
    where inner_type.type <> 0
"""
"""Joins to `parts` and its type `t`, in a recursive query, the types that this one is made of."""

# An enum may stand within an array, a domain, a range or a composite.
_PARTS = f"""
with recursive listed as (
    select own.*, c.oid
    from jsonb_to_recordset(%s)
        as own (label text, schema text, name text, columns jsonb, key jsonb)
    inner join pg_namespace as n on n.nspname = own.schema
    inner join pg_class as c on c.relnamespace = n.oid and c.relname = own.name
),

parts (label, name, type) as (
    select listed.label, a.attname, a.atttypid
    from listed
    inner join pg_attribute as a on a.attrelid = listed.oid and not a.attisdropped
    where listed.columns ? a.attname::text
    union
    select parts.label, parts.name, inner_type.type
    from parts
    inner join pg_type as t on t.oid = parts.type
    {TYPES_WITHIN}
)
"""
# The position is read after the snapshot was taken: what the snapshot shows was committed before.
_READ = f"""
{_PARTS},

named as (
    select parts.label, parts.name, e.oid::text as id, e.enumlabel::text as text
    from parts
    inner join pg_enum as e on e.enumtypid = parts.type
    union all
    select parts.label, parts.name, 'type', string_agg(coalesce((
        select '(' || string_agg(format_type(a.atttypid, null), ', ' order by a.attnum) || ')'
        from pg_attribute as a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ), format_type(t.oid, null)), ', ' order by t.oid)
    from parts
    inner join pg_type as t on t.oid = parts.type
    where t.typtype = 'c' or t.typname = any(%s)
    group by 1, 2
    union all
    select listed.label, a.attname, 'number', a.attnum::text
    from listed
    inner join pg_attribute as a on a.attrelid = listed.oid and not a.attisdropped
    where listed.columns ? a.attname::text
    union all
    select listed.label, '', own.*
    from listed
    inner join pg_class as c on c.oid = listed.oid
    inner join pg_type as t on t.oid = c.reltype
    cross join lateral (values
        ('oid', c.oid::text),
        ('persistence', c.relpersistence::text),
        ('heirs', (
            select string_agg(heir.oid::regclass::text, ', ' order by heir.oid)
            from pg_inherits as i
            inner join pg_class as heir on heir.oid = i.inhrelid and heir.relpersistence <> 't'
            where i.inhparent = c.oid and c.relkind = 'r'
        )),
        -- Of a partitioned table the leaves have names of their own.
        ('last renaming', case when c.relkind = 'r' then t.xmin::text end)
    ) as own (id, text)
    union all
    select listed.label, key.name, 'key', (
        select string_agg(quote_ident(a.attname), ', ' order by a.attname collate "C")
        from pg_index as i
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
        where i.indrelid = listed.oid and i.indisprimary and i.indimmediate
    )
    from listed
    cross join jsonb_array_elements_text(listed.key) as key (name)
),

by_column as (
    select named.label, named.name, jsonb_object_agg(named.id, named.text) as labels
    from named
    group by 1, 2
),

by_table as (
    select by_column.label, jsonb_object_agg(by_column.name, by_column.labels) as columns
    from by_column
    group by 1
)

select
    (select coalesce(jsonb_object_agg(label, columns), '{{}}') from by_table),
    (
        select coalesce(jsonb_agg(distinct parts.type::bigint), '[]')
        from parts
        inner join pg_type as t on t.oid = parts.type and t.typtype = 'e'
    ),
    {lsn.WAL_END}
"""
_CHECK = """
select
    (select coalesce(jsonb_object_agg(e.oid, e.enumlabel), '{}') from pg_enum as e
    where e.enumtypid = any(%s::oid[])),
    pg_current_snapshot()::text
"""


def list_needs(models: Sequence[Model]) -> str:
    """Return as JSON the tables of the models, each with its needed columns and its rows' key."""
    return json.dumps(
        [
            {
                "label": str(table),
                "schema": table.schema,
                "name": table.name,
                "columns": needed_columns(models, table),
                "key": identity_columns([m for m in models if m.kind == "rows"], table),
            }
            for table in source_tables(models)
        ]
    )


class LabelCatalog:
    """What the columns that models need are, as one server has them at one moment."""

    def __init__(self, connection: Connection, models: Sequence[Model]) -> None:
        """Read it. Raises LoaderError."""
        self._connection, self._models = connection, models
        ((labels, enums, read_lsn),) = connection.ask(_READ, (list_needs(models), [*READ_ALIKE]))
        self.labels: dict[Table, Labels] = {
            table: labels.get(str(table), {}) for table in source_tables(models)
        }
        """By table: the labels of a column's enums, its "number", its "type" where another one
        would be read as this one, and the "key" of the table that it is part of, where a model
        keeps its rows; under an empty name what tells the table itself from another one."""
        self.read_lsn = lsn.parse(read_lsn)
        """Everything that the catalog showed was committed before this."""
        self._enums: list[int] = enums
        self._known = {
            oid: label
            for columns in labels.values()
            for own in columns.values()
            for oid, label in own.items()
            if oid.isdigit()
        }

    @property
    def is_empty(self) -> bool:
        """Whether nothing has a label."""
        return not self._enums

    def is_as_read(self, connection: Connection) -> bool:
        """Return whether all of it that is there is the same in another session.

        Raises LoaderError.
        """
        now = LabelCatalog(connection, self._models).labels
        return all(now[table] in ({}, labels) for table, labels in self.labels.items())

    def look_again(self) -> tuple[bool, str]:
        """Return whether each enum has the same labels, and the snapshot that shows it."""
        ((labels, snapshot),) = self._connection.ask(_CHECK, (self._enums,))
        return labels == self._known, str(snapshot)
