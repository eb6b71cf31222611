"""What holds the rows of the facts' tables: each table itself, or its partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from common.connections import Connection, connect

from counting import ranges
from waltally.facts import Fact, source_tables
from waltally.tables import Table

Leaves = list[tuple[Table, list[ranges.Leaf]]]
"""By table of the facts, in their order."""


def of_facts(connection: Connection, facts: Sequence[Fact]) -> Leaves:
    """Return what holds the rows of the facts' tables, as the session sees it now."""
    return [(table, ranges.leaves(connection, table)) for table in source_tables(facts)]


def in_snapshot(conninfo: str, name: str, facts: Sequence[Fact]) -> Leaves:
    """Return the same as an exported snapshot has it: what is attached later is not the table's."""
    with contextlib.closing(connect(conninfo, "LOADER_SOURCE_DSN")) as importer:
        importer.execute("begin isolation level repeatable read read only")
        importer.execute(f"set transaction snapshot '{name}'")
        return of_facts(importer, facts)


def changed(found: Leaves, locked: Leaves) -> Table | None:
    """Return the first table whose leaves are not those that the locks found, or None.

    A table that was truncated or rewritten after the snapshot looks empty in it, with no error.
    """
    for (table, before), (_, now) in zip(found, locked, strict=True):
        if before != now:
            return table
    return None
