"""What the change log holds of the source tables: how the jobs read logged_table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from common.connections import Connection
from common.settings import Settings
from waltally import lsn
from waltally.facts import Fact, needed_columns, source_tables
from waltally.tables import Table

HeldSince = Mapping[str, int | None]
"""By `schema.name`, from which position on the log holds what facts need of it; None: not yet."""


def held_since(target: Connection, settings: Settings, facts: Sequence[Fact]) -> HeldSince:
    """Return what the log holds of the facts' tables."""
    needed = {str(table): needed_columns(facts, table) for table in source_tables(facts)}
    rows = target.execute(
        f"select key, {Table(settings.schema, 'held_since').quoted}(%s,"
        " jsonb_build_object(key, value))::text from jsonb_each(%s)",
        (settings.slot, json.dumps(needed)),
    ).fetchall()
    return {str(table): None if at is None else lsn.parse(str(at)) for table, at in rows}


def emptied(target: Connection, settings: Settings) -> dict[str, int]:
    """Return by table a position after the last drop or TRUNCATE of a partition that facts count.

    Tables of which none went are left out.
    """
    rows = target.execute(
        "select table_schema || '.' || table_name, emptied_lsn::text"
        f" from {Table(settings.schema, 'logged_table').quoted}"
        " where slot_name = %s and emptied_lsn is not null",
        (settings.slot,),
    ).fetchall()
    return {str(table): lsn.parse(str(at)) for table, at in rows}
