"""Which tables were counted: a name may later mean another table, an oid does not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence

from psycopg2 import extensions, sql

from waltally.database import explained
from waltally.errors import LoaderError, TableReplaced, TableUnfit
from waltally.tables import COUNTED, DIMENSIONS, Table, format_tables, literal

TableIdentities = Mapping[str, Mapping[str, int]]
"""By name: the table's oid under `oid`, the attribute number of each dimension that it has, and
under `named` the transaction that last gave the table its name.

That is the xmin of the table's row in pg_type. RENAME TO, SET SCHEMA and OWNER TO write that row
again; no other command does, VACUUM FREEZE and FULL included.
"""

_ABOUT_THE_TABLE = ("oid", "named")

_QUERY = """
select coalesce(jsonb_object_agg(
    wanted.label,
    (
        select coalesce(jsonb_object_agg(a.attname, a.attnum), '{}')
        from pg_attribute as a
        where a.attrelid = c.oid and a.attname = any(array[DIMENSIONS]) and not a.attisdropped
    ) || jsonb_build_object('oid', c.oid::bigint, 'named', t.xmin::text::bigint)
), '{}')::text
from jsonb_to_recordset('WANTED') as wanted (label text, schema text, name text)
inner join pg_namespace as n on n.nspname = wanted.schema
inner join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.name
-- A sequence or an index has no row type, and is no table.
inner join pg_type as t on t.oid = c.reltype
"""


def query(tables: Iterable[Table]) -> str:
    """Return SQL for any driver; its one value is the tables' identities now, as JSON."""
    wanted = [{"label": str(t), "schema": t.schema, "name": t.name} for t in tables]
    names = ", ".join(map(literal, DIMENSIONS))
    return _QUERY.replace("DIMENSIONS", names).replace("'WANTED'", literal(json.dumps(wanted)))


def read_counted(target: extensions.connection, schema: str, slot: str) -> TableIdentities:
    """Return what the newest baseline counted; without one, what setup found. Raises NotSetUp.

    Empty where that is not known: a baseline from an export, or a slot set up by an older loader.
    """
    statement = sql.SQL(
        "select case when seed.slot_name is null then log.source_tables "
        "else seed.source_tables end from {0}.slot_position as log "
        "left join {0}.historical_snapshot as seed using (slot_name) where log.slot_name = %s"
    ).format(sql.Identifier(schema))
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(statement, (slot,))
        row = cursor.fetchone()
    return (row and row[0]) or {}


def read_current(source: extensions.connection, tables: Iterable[Table]) -> TableIdentities:
    """Return the tables' identities now. Raises LoaderError."""
    with explained("source"), source, source.cursor() as cursor:
        cursor.execute(query(tables))
        row = cursor.fetchone()
    return json.loads(row[0]) if row else {}


def replaced_finding(
    counted: TableIdentities, found: TableIdentities, archive: Table | None
) -> LoaderError | None:
    """Return which table or column is not the one that was counted, None where all are.

    A table that was renamed and renamed back is the same one, but the log lacks the changes made
    under the other name. Tables and columns that are missing now are left to another check. A seed
    keeps the counts of rows that were purged from `archive`, also of a former archive, unless it
    runs with --forget-purged.
    """
    for name, before in counted.items():
        now = found.get(name, before)
        other = [
            column
            for column in before
            if column not in _ABOUT_THE_TABLE and now.get(column, before[column]) != before[column]
        ]
        if now["oid"] != before["oid"]:
            said = (
                f"{name} is now another table than was counted: the former one's rows are "
                "still in the counts"
            )
        elif other:
            said = (
                f"{', '.join(other)} of {name} was made anew: the former values are "
                "still in the counts"
            )
        elif "named" in before and now.get("named") != before["named"]:
            said = (
                f"{name} was renamed, moved to another schema or given another owner after it was "
                "counted: changes that were made under another name are not in the counts"
            )
        else:
            continue
        is_former = name == str(archive) and (now["oid"] != before["oid"] or bool(other))
        seed = "`spark-submit spark/seed.py{}` counts what is there now{}; then `dbt build`"
        return TableReplaced(
            said,
            seed.format(" --forget-purged", ", and no row that was purged before")
            if is_former
            else seed.format("", ""),
        )
    return None


def missing_finding(table: Table, registered: Sequence[Table]) -> LoaderError:
    """Return the error for a registered table that the source does not have."""
    said = f"The table {table} does not exist at the source, or has another name now"
    if table in registered[:COUNTED]:
        return TableUnfit(
            said,
            "give the table its name back or make it again; what was written under another name "
            "is not in the log, so then `spark-submit spark/seed.py`, then `dbt build`",
        )
    rest = shlex.quote(format_tables(each for each in registered if each != table))
    return TableUnfit(said, f"export LOADER_TABLES={rest}; loader setup; loader run")
