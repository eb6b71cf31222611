"""The registered facts: what `loader setup` found in dbt's manifest, as the jobs read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from common.connections import Connection
from common.slot_position import REMEDY
from waltally.errors import NotSetUp, SettingError
from waltally.facts import Declaration, Fact, parse
from waltally.tables import Table


def registered_facts(
    connection: Connection, schema: str, slot: str, names: Sequence[str] = ()
) -> list[Fact]:
    """Return the slot's facts with these names, all where there are none, in their names' order.

    Raises NotSetUp where no fact is registered, SettingError for a name that is not.
    """
    rows = connection.execute(
        "select fact_name, relation_schema, relation_name, declaration"
        f" from {Table(schema, 'fact').quoted} where slot_name = %s order by fact_name",
        (slot,),
    ).fetchall()
    found = {
        str(name): parse(
            str(name), Table(str(namespace), str(relation)), cast(Declaration, declaration)
        )
        for name, namespace, relation, declaration in rows
    }
    if not found:
        raise NotSetUp(f"no fact is registered for the slot {slot} in {schema}.fact", REMEDY)
    unknown = [name for name in dict.fromkeys(names) if name not in found]
    if unknown:
        raise SettingError(
            f"--fact names {', '.join(unknown)}, but the facts of the slot {slot} are"
            f" {', '.join(found)}",
            "name one of these; a new one is registered by `loader setup`",
        )
    return [fact for name, fact in found.items() if not names or name in names]
