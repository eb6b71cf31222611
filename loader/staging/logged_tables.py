"""Reads and writes logged_table: the registered source tables, and what the log holds of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psycopg2 import extensions, sql
from psycopg2.extras import Json

from waltally import lsn
from waltally.database import explained
from waltally.followed import Followed
from waltally.leaves import Root, to_row
from waltally.tables import Table

# Who writes the rows locks the slot's row first, so that setup and loader never wait in a circle.
_LOCK = "select registration from {0}.slot_position where slot_name = %(slot)s for no key update"
_FORGET = """
delete from {0}.logged_table as known
where slot_name = %(slot)s and not exists (
    select from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s) as wanted
    where (wanted.table_schema, wanted.table_name) = (known.table_schema, known.table_name)
)
"""
# What is known already stays: the log holds changes of the former table too, and the loader
# compares the partitions with what it finds.
_REGISTER = """
insert into {0}.logged_table as known (
    slot_name, table_schema, table_name, is_only_logged, table_oid, named_xid, column_numbers,
    partitions, partitions_lsn, gone_partitions
)
select
    %(slot)s, table_schema, table_name, is_only_logged, table_oid, named_xid, column_numbers,
    partitions, partitions_lsn, gone_partitions
from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s)
on conflict (slot_name, table_schema, table_name) do update set
    is_only_logged = excluded.is_only_logged,
    table_oid = coalesce(known.table_oid, excluded.table_oid),
    named_xid = coalesce(known.named_xid, excluded.named_xid),
    column_numbers = excluded.column_numbers || known.column_numbers,
    partitions = coalesce(known.partitions, excluded.partitions),
    partitions_lsn = coalesce(known.partitions_lsn, excluded.partitions_lsn),
    gone_partitions = coalesce(known.gone_partitions, excluded.gone_partitions)
"""
_FOLLOW = """
update {0}.logged_table as known set
    held_since = now.held_since,
    partitions = now.partitions,
    partitions_lsn = now.partitions_lsn,
    gone_partitions = now.gone_partitions,
    emptied_lsn = now.emptied_lsn
from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s) as now
where
    known.slot_name = %(slot)s
    and (known.table_schema, known.table_name) = (now.table_schema, now.table_name)
"""


def register(
    cursor: extensions.cursor, schema: str, slot: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Make these the slot's tables, in the transaction of the cursor; forget all others."""
    for statement in (_LOCK, _FORGET, _REGISTER):
        query = sql.SQL(statement).format(sql.Identifier(schema))
        cursor.execute(query, {"slot": slot, "rows": Json(rows)})


def write_followed(
    connection: extensions.connection,
    schema: str,
    slot: str,
    number: int,
    tables: Iterable[Table],
    followed: Followed,
    roots: Mapping[Table, Root],
) -> bool:
    """Write down what a session follows; False where another registration has come meanwhile.

    The caller ends the transaction.
    """
    rows = [
        {
            "table_schema": table.schema,
            "table_name": table.name,
            "held_since": {name: lsn.show(at) for name, at in followed.get(table, {}).items()},
            **(to_row(roots[table]) if table in roots else {}),
        }
        for table in tables
    ]
    place = sql.Identifier(schema)
    with explained("target"), connection.cursor() as cursor:
        cursor.execute(sql.SQL(_LOCK).format(place), {"slot": slot})
        is_same = cursor.fetchone() == (number,)
        if is_same:
            cursor.execute(sql.SQL(_FOLLOW).format(place), {"slot": slot, "rows": Json(rows)})
    return is_same
