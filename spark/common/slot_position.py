"""The slot's row in slot_position: the one statement by which the jobs read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from common.connections import Connection
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import NotSetUp
from waltally.followed import Followed
from waltally.leaves import Root, from_json
from waltally.tables import Table

REMEDY = "run `loader setup` with the same LOADER_SLOT, LOADER_SCHEMA and target"

Identities = Mapping[str, Mapping[str, int]]
"""What tells a table from another of the same name, by name: table_identity.TableIdentities."""


@dataclass(frozen=True)
class RegisteredSlot(SlotPosition):
    """The slot's row, with what the source tables were at setup, and what the log holds of them."""

    table_identities: Identities = field(default_factory=dict)
    followed: Followed = field(default_factory=dict)
    leaves: Mapping[str, Root] = field(default_factory=dict)
    """What is partitioned, by `schema.name`."""


def find(target: Connection, schema: str, slot: str) -> RegisteredSlot | None:
    """Return the slot's row, None where it has none."""
    row = target.execute(
        "select system_identifier, source_database, start_lsn::text, position_lsn::text,"
        " timeline, timeline_began_lsn::text, on_standby, table_identities, followed, leaves"
        f" from {Table(schema, 'slot_position').quoted} where slot_name = %s",
        (slot,),
    ).fetchone()
    if row is None:
        return None
    system, database, start, position, timeline, began, *rest = row
    on_standby, identities, followed, leaves = rest
    return RegisteredSlot(
        slot,
        str(system),
        str(database),
        lsn.parse(str(start)),
        lsn.parse(str(position)),
        timeline=cast("int | None", timeline),
        timeline_began_lsn=None if began is None else lsn.parse(str(began)),
        on_standby=bool(on_standby),
        table_identities=cast(Identities, identities or {}),
        followed=cast(Followed, followed),
        leaves={
            label: from_json(root)
            for label, root in cast(Mapping[str, Mapping[str, object]], leaves).items()
        },
    )


def read(target: Connection, schema: str, slot: str) -> RegisteredSlot:
    """Return the slot's row. Raises NotSetUp where it has none."""
    found = find(target, schema, slot)
    if found is None:
        raise NotSetUp(f"slot {slot} has no row in {schema}.slot_position", REMEDY)
    return found
