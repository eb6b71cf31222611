"""A history counted by the rules in Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rules import messages
from rules.numbers import Number
from rules.tallies import Counting, Position, Row, Tally, add_sums

from testkit.facts import SLOT
from tests.properties.rule_cases import letter
from waltally.facts import Fact
from waltally.tables import Table

Change = Mapping[str, Any] | str
"""A change as wal2json sends it; text is something that is no change."""
Group = tuple[str | None, ...]
"""The texts of the dimensions."""


def truncates(fact: Fact, rows: Sequence[Row]) -> dict[Table, Position]:
    """Where each table of the fact was last emptied."""
    found: dict[Table, Position] = {}
    for lsn, ordinal, _, payload in rows:
        table = messages.truncated_table(payload)
        if table in [part.table for part in fact.tables]:
            found[table] = max(found.get(table, (lsn, ordinal)), (lsn, ordinal))
    return found


def printed(change: Mapping[str, Any], number: int) -> str:
    """Every second one in the plugin's own form, whose action the loader notes."""
    return json.dumps(change, separators=(",", ":") if number % 2 else None)


def as_rows(history: list[list[Change]], first: int = 0) -> list[Row]:
    """A history as the log has it; the position of a transaction is its number."""
    return [
        (number, ordinal, letter(text), text)
        for number, transaction in enumerate(history, first)
        for ordinal, change in enumerate(transaction, 1)
        for text in [change if isinstance(change, str) else printed(change, ordinal)]
    ]


def counted(fact: Fact, rows: list[Row]) -> Tally:
    counting = Counting([fact], SLOT, truncates(fact, rows))
    counting.count(rows)
    (tally,) = counting.finish()
    return tally


def groups(tally: Tally) -> dict[Group, list[Number]]:
    """The measures of each group; groups of nothing left out."""
    found: dict[Group, list[Number]] = {}
    for (_, group), sums in tally.groups.items():
        add_sums(found, group, sums)
    return {group: sums for group, sums in found.items() if any(sums)}


def purged(tally: Tally) -> dict[str, dict[Group, list[Number]]]:
    """What was deleted from each table whose deletes are ignored."""
    found: dict[str, dict[Group, list[Number]]] = {}
    for (part, group, _), sums in tally.archived.items():
        add_sums(found.setdefault(part, {}), group, sums)
    return found
