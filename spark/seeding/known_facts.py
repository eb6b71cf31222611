"""The facts that may still count purged rows, as they are before the snapshot.

Of a table whose deletes are ignored, a fact knows rows that the table no longer has. A new baseline
must keep them: seeding.purged_rows compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import psycopg
from common import slot_position
from common.connections import Connection
from common.settings import Settings
from common.slot_position import RegisteredSlot
from warehouse import watermark

from seeding import rejections
from seeding.incoming_table import incoming_table
from seeding.rejections import Rejections
from waltally import followed
from waltally.errors import MissingRight
from waltally.facts import Fact
from waltally.tables import Table, literal, quoted


@dataclass(frozen=True)
class KnownFact:
    """A fact whose rows are in the incoming table, with the origin `known`."""

    fact: Fact
    position: int | None
    """Every change below it is in the fact; None where the log does not reach back to it."""
    is_seeded: bool
    """Whether it stands on a baseline; otherwise it lacks the rows from before the log."""
    moved: str = ""
    """A table whose partitions came or went with their rows after the position: what the fact has
    beyond the stored rows may be theirs."""
    rejections: Rejections = rejections.NONE

    @property
    def is_comparable(self) -> bool:
        """Whether what it has beyond the stored rows was purged.

        So it is where the fact can be brought forward to what all rows add up to. Otherwise it
        lacks rows, and only counts of a table alone tell where it has more than are stored.
        """
        if self.moved:
            return False
        is_complete = self.is_seeded and self.position is not None
        return is_complete or all(
            measure.kind == "count" and measure.of == (part.name,)
            for part in self.fact.tables
            if part.deletes == "ignore"
            for measure in self.fact.measures
            if part.name in measure.of
        )


def remembers(fact: Fact) -> bool:
    """Return whether purged rows stay in the fact."""
    return any(part.deletes == "ignore" for part in fact.tables)


def read(
    target: Connection, settings: Settings, facts: Sequence[Fact]
) -> dict[str, KnownFact | Literal["other"]]:
    """Copy the facts' rows into the incoming table, all as of one moment. Raises MissingRight.

    Returns by name those that are built: `other` for a fact that is built by another declaration,
    whose rows cannot be compared.
    """
    found: dict[str, KnownFact | Literal["other"]] = {}
    with target.transaction():
        target.execute("set transaction isolation level repeatable read")
        for fact in filter(remembers, facts):
            known = find(target, settings, fact)
            if isinstance(known, KnownFact):
                _copy(target, settings, fact)
            if known is not None:
                found[fact.name] = known
    return found


def find(target: Connection, settings: Settings, fact: Fact) -> KnownFact | Literal["other"] | None:
    """Return how far the fact is built; None where it was not built from this slot."""
    row = target.execute(
        "select to_regclass(%s) is not null, exists ("
        f"select from {Table(settings.schema, 'model_watermark').quoted}"
        " where model_name = %s and slot_name <> %s)",
        (fact.relation.quoted, str(fact.relation), settings.slot),
    ).fetchone()
    assert row is not None
    exists, is_of_another = row
    slot = slot_position.find(target, settings.schema, settings.slot)
    built = watermark.find(target, settings.schema, settings.slot, fact)
    if slot is None or not exists or (built is None and is_of_another):
        return None
    if built is None:
        return KnownFact(fact, None, False) if _has_columns(target, fact) else "other"
    if built.declaration != fact.declaration:
        return "other"
    reached = built.applied_lsn if built.applied_lsn >= slot.start_lsn else None
    moved = _moved(slot, fact, built.applied_lsn)
    rejected = rejections.read(target, settings, fact)
    return KnownFact(fact, reached, built.baseline_id is not None, moved, rejected)


def _moved(slot: RegisteredSlot, fact: Fact, position: int) -> str:
    """Return a table that is added up with a remembering one and is not whole in the log."""
    together = rejections.compared_parts(fact)
    for part in fact.tables:
        begin = followed.since(slot.followed, part.table, fact.needed_columns(part))
        is_partitioned = str(part.table) in slot.leaves
        if part.name in together and is_partitioned and begin is not None and begin > position:
            return str(part.table)
    return ""


def _has_columns(target: Connection, fact: Fact) -> bool:
    """Return whether a relation of unknown declaration has the fact's columns."""
    dimensions = [each.name for each in fact.dimensions]
    measures = [each.name for each in fact.measures]
    row = target.execute(
        "select array(select attname::text from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0 and not attisdropped) @> %s::text[]",
        (fact.relation.quoted, [*dimensions, *measures]),
    ).fetchone()
    return row == (True,)


def _copy(target: Connection, settings: Settings, fact: Fact) -> None:
    of_slot = [
        f" where {quoted(each.name)} = {literal(settings.slot)}"
        for each in fact.dimensions
        if each.kind == "slot"
    ]
    dimensions = [each.name for each in fact.dimensions]
    measures = [each.name for each in fact.measures]
    query = (
        f"insert into {incoming_table(settings).quoted} (fact, dimensions, sums, origin)"
        f" select {literal(fact.name)}, {_texts(dimensions)}, {_texts(measures)},"
        f" 'known' from {fact.relation.quoted}{''.join(of_slot)}"
    )
    try:
        target.execute(query.encode())
    except psycopg.errors.InsufficientPrivilege:
        user, table = quoted(target.info.user), fact.relation
        raise MissingRight(
            f"role {target.info.user} may not read {table}, which knows how many rows were purged",
            f"grant usage on schema {quoted(table.schema)} to {user};"
            f" grant select on {table.quoted} to {user};",
        ) from None


def _texts(columns: Sequence[str]) -> str:
    return "array[" + ", ".join(f"{quoted(each)}::text" for each in columns) + "]"
