"""Asks a server's catalog for the labels of the enums in the columns that models need.

A label keeps its oid when it is renamed, and then stored changes have its old name, while the old
rows of changes to come have the new one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from loader.staging.logged_tables import Labels
from waltally import lsn
from waltally.database import Connection
from waltally.models import Model, needed_columns, source_tables
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
with recursive parts (label, name, type) as (
    select listed.label, a.attname, a.atttypid
    from jsonb_to_recordset(%s) as listed (label text, schema text, name text, columns jsonb)
    inner join pg_namespace as n on n.nspname = listed.schema
    inner join pg_class as c on c.relnamespace = n.oid and c.relname = listed.name
    inner join pg_attribute as a on a.attrelid = c.oid and not a.attisdropped
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

by_column as (
    select parts.label, parts.name, jsonb_object_agg(e.oid, e.enumlabel) as labels
    from parts
    inner join pg_enum as e on e.enumtypid = parts.type
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
    """Return as JSON the tables of the models, each with its needed columns."""
    return json.dumps(
        [
            {
                "label": str(table),
                "schema": table.schema,
                "name": table.name,
                "columns": needed_columns(models, table),
            }
            for table in source_tables(models)
        ]
    )


class LabelCatalog:
    """The labels of the enums that models need, as one server has them at one moment."""

    def __init__(self, connection: Connection, models: Sequence[Model]) -> None:
        """Read them. Raises LoaderError."""
        self._connection = connection
        ((labels, enums, read_lsn),) = connection.ask(_READ, (list_needs(models),))
        self.labels: dict[Table, Labels] = {
            table: labels.get(str(table), {}) for table in source_tables(models)
        }
        """By table."""
        self.read_lsn = lsn.parse(read_lsn)
        """Everything that the catalog showed was committed before this."""
        self._enums: list[int] = enums
        self._known = {
            oid: label
            for columns in labels.values()
            for own in columns.values()
            for oid, label in own.items()
        }

    @property
    def is_empty(self) -> bool:
        """Whether nothing has a label."""
        return not self._enums

    def look_again(self) -> tuple[bool, str]:
        """Return whether each enum has the same labels, and the snapshot that shows it."""
        ((labels, snapshot),) = self._connection.ask(_CHECK, (self._enums,))
        return labels == self._known, str(snapshot)
