"""Which tables were counted: a name may later mean another table, an oid does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypedDict

from waltally.database import Connection, Target
from waltally.errors import LoaderError, TableReplaced, TableUnfit
from waltally.facts import Fact, needed_columns, source_tables
from waltally.tables import Table


class TableIdentity(TypedDict):
    """What tells a table from another of the same name."""

    table_oid: int
    named_xid: int
    """The transaction that last gave it its name: the xmin of its row in pg_type.

    RENAME TO, SET SCHEMA and OWNER TO write that row again; no other command does, VACUUM FREEZE
    and FULL included."""
    column_numbers: dict[str, int]
    """The attribute numbers of the needed columns that it has."""


TableIdentities = Mapping[str, TableIdentity]
"""By `schema.name`."""

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
    fact.fact_name,
    baseline.snapshot_lsn::text,
    case when baseline.fact_name is not null then baseline.table_identities else (
        select jsonb_object_agg(table_schema || '.' || table_name, to_jsonb(logged))
        from {0}.logged_table as logged
        where logged.slot_name = fact.slot_name and table_oid is not null
    ) end
from {0}.fact
left join {0}.baseline using (slot_name, fact_name)
where fact.slot_name = %s
"""
"""Gives by fact what its baseline counted, or setup found where it has none; null where that is not
known. The schema is filled in."""


def of_fact(identities: TableIdentities, fact: Fact) -> TableIdentities:
    """Return what the identities say of the tables and columns of one fact."""
    return {
        label: {
            **identities[label],
            "column_numbers": {
                name: number
                for name, number in identities[label]["column_numbers"].items()
                if name in columns
            },
        }
        for label, columns in fact.needed.items()
        if label in identities
    }


def read_counted(target: Target) -> dict[str, TableIdentities]:
    """Return by fact what it counted; empty where that is not known. Raises LoaderError."""
    rows = target.ask_staging(COUNTED, (target.slot,))
    return {name: identities or {} for name, _, identities in rows}


def read_current(source: Connection, facts: Sequence[Fact]) -> TableIdentities:
    """Return the identities that the tables of the facts have now. Raises LoaderError."""
    tables = [
        {
            "label": str(table),
            "schema": table.schema,
            "name": table.name,
            "columns": needed_columns(facts, table),
        }
        for table in source_tables(facts)
    ]
    ((identities,),) = source.ask(_QUERY, (json.dumps(tables),))
    current: TableIdentities = identities
    return current


def replaced_findings(
    facts: Sequence[Fact], counted: Mapping[str, TableIdentities], found: TableIdentities
) -> list[LoaderError]:
    """Return which tables or columns are not those that the facts counted, each table once."""
    said: dict[str, LoaderError] = {}
    for fact in facts:
        finding = replaced_finding(fact, counted.get(fact.name, {}), found)
        if finding is not None:
            said.setdefault(str(finding), finding)
    return list(said.values())


def replaced_finding(
    fact: Fact, counted: TableIdentities, found: TableIdentities
) -> LoaderError | None:
    """Return which table or column is not the one that was counted, None where all are.

    A table that was renamed and renamed back is the same one, but the log lacks the changes made
    under the other name. Tables and columns that are missing now are left to another check.
    """
    for name, before in of_fact(counted, fact).items():
        now = found.get(name, before)
        other = [
            column
            for column, number in before["column_numbers"].items()
            if now["column_numbers"].get(column, number) != number
        ]
        if now["table_oid"] != before["table_oid"]:
            said = (
                f"{name} is now another table than was counted: the former one's rows are "
                "still in the counts"
            )
        elif other:
            said = (
                f"{', '.join(other)} of {name} was made anew: the former values are "
                "still in the counts"
            )
        elif now["named_xid"] != before["named_xid"]:
            said = (
                f"{name} was renamed, moved to another schema or given another owner after it was "
                "counted: changes that were made under another name are not in the counts"
            )
        else:
            continue
        return TableReplaced(
            said, "`spark-submit spark/seed.py` counts what is there now; then `dbt build`"
        )
    return None


def missing_finding(table: Table) -> LoaderError:
    """Return the error for a registered table that the source does not have."""
    return TableUnfit(
        f"The table {table} does not exist at the source, or has another name now",
        "give the table its name back or make it again; what was written under another name "
        "is not in the log, so then `spark-submit spark/seed.py`, then `dbt build`",
    )
