"""The slot's row in slot_position: the one statement by which the jobs read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from common.connections import Connection
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import NotSetUp
from waltally.tables import Table

REMEDY = "run `loader setup` with the same LOADER_SLOT, LOADER_SCHEMA and target"

_QUERY = """
select
    system_identifier,
    source_database,
    start_lsn::text,
    position_lsn::text,
    timeline,
    timeline_began_lsn::text,
    on_standby,
    array(
        select array[fact.fact_name, need.key, held.since::text]
        from {fact} as fact
        cross join jsonb_each(fact.needed) as need
        cross join lateral
            {held_since}(fact.slot_name, jsonb_build_object(need.key, need.value)) as held (since)
        where fact.slot_name = %(slot)s and held.since is not null
    ),
    array(
        select array[table_schema || '.' || table_name, emptied_lsn::text]
        from {logged_table}
        where slot_name = %(slot)s and emptied_lsn is not null
    )
from {slot_position} where slot_name = %(slot)s
"""


@dataclass(frozen=True)
class RegisteredSlot(SlotPosition):
    """The slot's row, with what the log holds of the facts' tables."""

    held_since: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By fact and table as `schema.name`, from which position on the log holds all that the fact
    needs of it; a table that is not followed yet is left out."""
    emptied: Mapping[str, int] = field(default_factory=dict)
    """By table, a position after the last drop or TRUNCATE of a partition that facts count."""


def find(target: Connection, schema: str, slot: str) -> RegisteredSlot | None:
    """Return the slot's row, None where it has none."""
    tables = {
        name: Table(schema, name).quoted
        for name in ("slot_position", "fact", "held_since", "logged_table")
    }
    row = target.execute(_QUERY.format(**tables).encode(), {"slot": slot}).fetchone()
    if row is None:
        return None
    system, database, start, position, timeline, began, on_standby, held, emptied = row
    return RegisteredSlot(
        slot,
        str(system),
        str(database),
        lsn.parse(str(start)),
        lsn.parse(str(position)),
        timeline=cast("int | None", timeline),
        timeline_began_lsn=None if began is None else lsn.parse(str(began)),
        on_standby=bool(on_standby),
        held_since={
            (fact, table): lsn.parse(at) for fact, table, at in cast(list[list[str]], held)
        },
        emptied={table: lsn.parse(at) for table, at in cast(list[list[str]], emptied)},
    )


def read(target: Connection, schema: str, slot: str) -> RegisteredSlot:
    """Return the slot's row. Raises NotSetUp where it has none."""
    found = find(target, schema, slot)
    if found is None:
        raise NotSetUp(f"slot {slot} has no row in {schema}.slot_position", REMEDY)
    return found
