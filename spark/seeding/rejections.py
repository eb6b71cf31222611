"""Changes that a fact rejected: it differs from the stored rows by them, and not by purges alone.

An update that was rejected leaves its row in the group that it was in. The comparison of
seeding.purged_rows would take it for a purged row there. A rejected row that can be counted now
would hide a purged one of its group.
"""

from __future__ import annotations

from dataclasses import dataclass

from common.connections import Connection
from common.settings import Settings
from counting.counts import NULL_DIMENSION
from deltas import rules
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from seeding.incoming_table import incoming_table
from waltally.facts import Fact
from waltally.tables import Table


@dataclass(frozen=True)
class Rejections:
    """What a fact lacks of the tables that purged rows are compared for.

    `has_moves`: a change that is no insert. `rows`: how many rows that came, or that its baseline
    found, were rejected.
    """

    has_moves: bool
    rows: int


NONE = Rejections(False, 0)


def compared_parts(fact: Fact) -> frozenset[str]:
    """Return the parts that ignore deletes, and those that are added up together with one."""
    kept = {part.name for part in fact.tables if part.deletes == "ignore"}
    return frozenset(name for each in fact.measures if kept & set(each.of) for name in each.of)


def read(target: Connection, settings: Settings, fact: Fact) -> Rejections:
    """Return what the fact has rejected since its baseline; the worst where it may not be read."""
    marks = Table(settings.schema, "model_watermark").quoted
    listed = Table(fact.relation.schema, "rejected_changes").quoted
    this = (settings.slot, str(fact.relation))
    row = target.execute(
        "select coalesce(has_table_privilege(to_regclass(%s), 'select'), false)"
        f" from {marks} where slot_name = %s and model_name = %s and rejected_lsn < applied_lsn",
        (listed, *this),
    ).fetchone()
    if row is None:
        return NONE
    if row != (True,):
        return Rejections(True, 0)
    parts = compared_parts(fact)
    tables = [str(each.table) for each in fact.tables if each.name in parts]
    found = target.execute(
        "select coalesce(bool_or(coalesce(action, '') not in ('I', 'baseline')), false),"
        " coalesce(sum(case action when 'baseline' then (payload::jsonb ->> 'row_count')::bigint"
        f" else 1 end), 0)::bigint from {listed} where slot_name = %s and fact = %s"
        " and (source_table = any(%s) or source_table is null)",
        (*this, tables),
    ).fetchone()
    assert found is not None
    return Rejections(bool(found[0]), int(str(found[1])))


def are_among(changes: DataFrame, fact: Fact, slot: str) -> bool:
    """Return whether changes of the compared tables cannot be counted. Reads the changes now."""
    part = sql.col("part")
    of_these = part.isNull() | part.isin(sorted(compared_parts(fact)))
    rejected = rules.classify(changes, fact, slot).where(sql.col("reason").isNotNull() & of_these)
    return not rejected.isEmpty()


def are_in_the_way(target: Connection, settings: Settings, fact: Fact, found: Rejections) -> bool:
    """Return whether the fact differs from the stored rows by what it rejected.

    Rows that cannot be counted now either are in neither.
    """
    if found.has_moves or not found.rows:
        return found.has_moves
    row = target.execute(
        f"select coalesce(sum(row_count), 0)::bigint from {incoming_table(settings).quoted}"
        " where fact = %s and origin = 'counted' and reason <> %s and part = any(%s)",
        (fact.name, NULL_DIMENSION, sorted(compared_parts(fact))),
    ).fetchone()
    assert row is not None
    return int(str(row[0])) < found.rows
