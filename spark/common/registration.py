"""What `loader setup` has registered for the slot, and what the change log holds of its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from loader.staging.registration import read_registration
from loader.staging.target_state import SETUP_REMEDY
from waltally import lsn
from waltally.database import Connection
from waltally.errors import NotSetUp, SettingError
from waltally.facts import Fact, needed_columns, source_tables

HeldSince = Mapping[str, int | None]
"""By `schema.name`, from which position on the log holds what facts need of it; None: not yet."""


def registered_facts(
    target: Connection, schema: str, slot: str, names: Sequence[str] = ()
) -> list[Fact]:
    """Return the slot's facts with these names, all where there are none, in their names' order.

    Raises NotSetUp where no fact is registered, SettingError for a name that is not.
    """
    facts = read_registration(target, schema, slot).facts
    if not facts:
        raise NotSetUp(f"no fact is registered for the slot {slot} in {schema}.fact", SETUP_REMEDY)
    known = [fact.name for fact in facts]
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if unknown:
        raise SettingError(
            f"--fact names {', '.join(unknown)}, but the facts of the slot {slot} are"
            f" {', '.join(known)}",
            "name one of these; a new one is registered by `loader setup`",
        )
    return [fact for fact in facts if not names or fact.name in names]


def held_since(target: Connection, schema: str, slot: str, facts: Sequence[Fact]) -> HeldSince:
    """Return what the log holds of the facts' tables."""
    needed = {str(table): needed_columns(facts, table) for table in source_tables(facts)}
    rows = target.ask(
        "select key, {}.held_since(%s, jsonb_build_object(key, value))::text from jsonb_each(%s)",
        (slot, json.dumps(needed)),
        schema,
    )
    return {table: None if at is None else lsn.parse(at) for table, at in rows}


def emptied(target: Connection, schema: str, slot: str) -> dict[str, int]:
    """Return by table a position after the last drop or TRUNCATE of a partition that facts count.

    Tables of which none went are left out.
    """
    roots = read_registration(target, schema, slot).leaves
    return {
        str(table): root.emptied_lsn
        for table, root in roots.items()
        if root.emptied_lsn is not None
    }
