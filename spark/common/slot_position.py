"""The slot's row in slot_position: the one statement by which the jobs read it."""

from __future__ import annotations

from typing import cast

from common.connections import Connection
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import NotSetUp
from waltally.tables import Table

REMEDY = "run `loader setup` with the same LOADER_SLOT, LOADER_SCHEMA and target"


def read(target: Connection, schema: str, slot: str) -> SlotPosition:
    """Return the slot's row. Raises NotSetUp where it has none."""
    row = target.execute(
        "select system_identifier, source_database, start_lsn::text, position_lsn::text,"
        " timeline, timeline_began_lsn::text, on_standby"
        f" from {Table(schema, 'slot_position').quoted} where slot_name = %s",
        (slot,),
    ).fetchone()
    if row is None:
        raise NotSetUp(f"slot {slot} has no row in {schema}.slot_position", REMEDY)
    system, database, start, position, timeline, began, on_standby = row
    return SlotPosition(
        slot,
        str(system),
        str(database),
        lsn.parse(str(start)),
        lsn.parse(str(position)),
        timeline=cast("int | None", timeline),
        timeline_began_lsn=None if began is None else lsn.parse(str(began)),
        on_standby=bool(on_standby),
    )
