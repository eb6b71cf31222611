"""Asks a source about its tables, and the target about those that were counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loader.source.fingerprint import FingerprintCatalog
from loader.source.statements import statement
from loader.source.table import BY_SESSION, TableInfo, Writes
from loader.source.table_identity import TableIdentities
from loader.staging.logged_tables import Root
from waltally.database import Connection, Target
from waltally.models import Model, identity_columns, needed_columns, source_tables
from waltally.tables import Table


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
    rows = connection.ask(f"select to_jsonb(info) from ({statement('table_info')}) as info", values)
    if not rows:
        return TableInfo(table)
    ((info,),) = rows
    return TableInfo(table, **{**info, "writes": Writes(*info["writes"])})


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
        rows = source.ask(statement("narrow_leaves"), {"leaves": list(leaves), "needed": needed})
        infos = [
            ask_table(source, leaf, models, table) for oid, leaf in leaves.items() if (oid,) in rows
        ]
        if infos:
            narrow[table] = infos
    return narrow


COUNTED = """
select
    registered_model.model_name,
    baseline.snapshot_lsn::text,
    case when baseline.model_name is not null then baseline.table_identities else (
        select jsonb_object_agg(table_schema || '.' || table_name, to_jsonb(logged))
        from {0}.logged_table as logged
        where logged.slot_name = registered_model.slot_name and table_oid is not null
    ) end
from {0}.registered_model
left join {0}.baseline using (slot_name, model_name)
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
    return FingerprintCatalog(source, models).identities
