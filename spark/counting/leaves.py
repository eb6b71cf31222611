"""What holds the rows of the facts' tables: each table itself, or its partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from common.connections import Connection, connect
from common.errors import SnapshotBlocked
from common.settings import Settings

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


def refuse_others(locked: Leaves, found: Leaves, settings: Settings) -> None:
    """Raise SnapshotBlocked where the snapshot has other leaves than those that are locked.

    A new leaf could be truncated while it is read, and would then look empty, with no error.
    """
    for (table, before), (_, now) in zip(locked, found, strict=True):
        if {leaf.table for leaf in before} != {leaf.table for leaf in now}:
            raise SnapshotBlocked(
                f"partitions of {table} came or went while the snapshot was made",
                f"run the {settings.work} again",
            )
