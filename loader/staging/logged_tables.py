"""Reads and writes logged_table: the registered source tables, and what the log holds of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
delete from {0}.logged_table where slot_name = %(slot)s and (table_schema, table_name) not in (
    select table_schema, table_name from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s)
)
"""
# What is known already stays: the log holds changes of the former table too, and the loader
# compares the partitions with what it finds.
_REGISTER = """
insert into {0}.logged_table as known
select * from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s)
on conflict (slot_name, table_schema, table_name) do update set
    table_oid = coalesce(known.table_oid, excluded.table_oid),
    named_xid = coalesce(known.named_xid, excluded.named_xid),
    column_numbers = excluded.column_numbers || known.column_numbers,
    partitions = coalesce(known.partitions, excluded.partitions)
"""
_FOLLOW = """
update {0}.logged_table as known set
    (held_since, partitions, emptied_lsn) = (now.held_since, now.partitions, now.emptied_lsn)
from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s) as now
where
    known.slot_name = %(slot)s
    and (known.table_schema, known.table_name) = (now.table_schema, now.table_name)
"""


def row(slot: str, table: Table, root: Root | None, **values: object) -> dict[str, object]:
    """Return a row of logged_table as JSON."""
    name = {"slot_name": slot, "table_schema": table.schema, "table_name": table.name}
    return {**name, **({} if root is None else to_row(root)), **values}


def register(
    cursor: extensions.cursor, schema: str, slot: str, rows: list[dict[str, object]]
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
    held = {
        table: {name: lsn.show(at) for name, at in columns.items()}
        for table, columns in followed.items()
    }
    rows = [row(slot, each, roots.get(each), held_since=held.get(each, {})) for each in tables]
    place = sql.Identifier(schema)
    with explained("target"), connection.cursor() as cursor:
        cursor.execute(sql.SQL(_LOCK).format(place), {"slot": slot})
        is_same = cursor.fetchone() == (number,)
        if is_same:
            cursor.execute(sql.SQL(_FOLLOW).format(place), {"slot": slot, "rows": Json(rows)})
    return is_same
