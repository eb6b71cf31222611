"""Asks a source about its tables, and the target about those that were counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from loader.source.label_catalog import TYPES_WITHIN, LabelCatalog, list_needs
from loader.source.table import BY_SESSION, TableInfo, Writes
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Root
from waltally.database import Connection, Target
from waltally.models import Model, identity_columns, needed_columns, source_tables
from waltally.tables import Table


@cache
def _table_query() -> str:
    query = (resources.files("loader.source") / "table_info.sql").read_text()
    return f"select to_jsonb(info) from ({query.replace('{types_within}', TYPES_WITHIN)}) as info"


def ask_table(
    connection: Connection,
    table: Table,
    models: Sequence[Model],
    root: Table | None = None,
) -> TableInfo:
    """Return what the catalog says of a table that the models need. Raises LoaderError.

    From a leaf the models need the same columns as from its `root`.
    """
    counted = root or table
    values = {
        "schema": table.schema,
        "name": table.name,
        "columns": list(needed_columns(models, counted)),
        "identity": list(identity_columns(models, counted)),
        "by_session": list(BY_SESSION),
    }
    rows = connection.ask(_table_query(), values)
    if not rows:
        return TableInfo(table)
    ((info,),) = rows
    return TableInfo(table, **{**info, "writes": Writes(*info["writes"])})


# The same condition as in `table_checks.identity_wide`, for all leaves at once.
_NARROW = """
select c.oid::bigint
from pg_class as c
where
    c.oid = any(%(leaves)s::oid[])
    and c.relreplident <> 'f'
    and not coalesce((
        select array_agg(a.attname::text) @> %(needed)s::text[]
        from pg_index as i
        cross join unnest(i.indkey) with ordinality as k (attnum, place)
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where
            i.indrelid = c.oid
            and i.indimmediate
            and k.place <= i.indnkeyatts
            and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary end
    ), false)
"""


def ask_narrow_leaves(
    source: Connection, roots: Mapping[Table, Root], models: Sequence[Model]
) -> dict[Table, list[TableInfo]]:
    """Return the leaves whose replica identity lacks a column that the models need of an old row.

    They are listed by partitioned table. A new leaf does not inherit the identity of its parent.
    """
    narrow: dict[Table, list[TableInfo]] = {}
    for table in source_tables(models):
        if (root := roots.get(table)) is None:
            continue
        leaves = {
            leaf.oid: leaf.table for leaf in root.members if leaf.kind != "p" and not leaf.is_unfit
        }
        needed = list(identity_columns(models, table))
        rows = source.ask(_NARROW, {"leaves": list(leaves), "needed": needed})
        infos = [
            ask_table(source, leaf, models, table) for oid, leaf in leaves.items() if (oid,) in rows
        ]
        if infos:
            narrow[table] = infos
    return narrow


_QUERY = """
select coalesce(jsonb_object_agg(
    needed.label,
    jsonb_build_object('table_oid', c.oid::bigint, 'named_xid', t.xmin::text::bigint)
    || jsonb_build_object('column_numbers', (
        select coalesce(jsonb_object_agg(a.attname, a.attnum), '{}')
        from pg_attribute as a
        where
            a.attrelid = c.oid
            and not a.attisdropped
            and needed.columns ? a.attname::text
    ), 'names', (
        select jsonb_object_agg(a.attnum, a.attname)
        from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ))
), '{}')
from jsonb_to_recordset(%s)
    as needed (label text, schema text, name text, columns jsonb)
inner join pg_namespace as n on n.nspname = needed.schema
inner join pg_class as c on c.relnamespace = n.oid and c.relname = needed.name
-- A sequence or an index has no row type, and is no table.
inner join pg_type as t on t.oid = c.reltype
"""

COUNTED = """
select
    registered_model.declared_name,
    baseline.snapshot_lsn::text,
    case when baseline.declared_name is not null then baseline.table_identities else (
        select jsonb_object_agg(table_schema || '.' || table_name, to_jsonb(logged))
        from {0}.logged_table as logged
        where logged.slot_name = registered_model.slot_name and table_oid is not null
    ) end
from {0}.registered_model
left join {0}.baseline using (slot_name, declared_name)
where registered_model.slot_name = %s
"""
"""Gives each model with the identities of the tables that its baseline counted.

Without a baseline they are those that setup read; null where nobody has read any."""


def read_counted(target: Target) -> dict[str, TableIdentities]:
    """Return the tables that each model counted; empty where not known. Raises LoaderError."""
    rows = target.ask_staging(COUNTED, (target.slot,))
    return {name: identities or {} for name, _, identities in rows}


def read_current(source: Connection, models: Sequence[Model]) -> TableIdentities:
    """Return the identities that the tables of the models have now. Raises LoaderError."""
    ((identities,),) = source.ask(_QUERY, (list_needs(models),))
    for table, labels in LabelCatalog(source, models).labels.items():
        if str(table) in identities:
            identities[str(table)]["labels"] = labels
    current: TableIdentities = identities
    return current
