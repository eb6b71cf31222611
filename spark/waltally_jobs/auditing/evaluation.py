"""Brings a fact to the snapshot and compares it with the counts there, bucket by bucket. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as compute
from counting.counts import NO_NUMBER, Uncounted
from rules.numbers import EXACT, Number, add, parse, print_number

from waltally.facts import Fact, FactTable
from waltally_jobs.auditing.report import Comparison, Difference, LeftOut, NotFinite, Total
from waltally_jobs.common import sums
from waltally_jobs.common.errors import AuditIncomplete

CORRECTED = 10_000
"""A roll-up is recounted over a fact with at most so many wrong values."""


def uncounted(
    found: Iterable[tuple[FactTable, Uncounted]],
) -> tuple[list[LeftOut], list[NotFinite]]:
    """Return how many rows of each table cannot be counted, and why; and which numbers are none."""
    rows: dict[tuple[str, str], int] = {}
    numbers: dict[tuple[str, str], int] = {}
    for part, (count, reason, example) in found:
        is_number = reason == NO_NUMBER
        key = str(part.table), str(example) if is_number else reason
        into = numbers if is_number else rows
        into[key] = into.get(key, 0) + count
    return (
        [LeftOut(*key, rows[key]) for key in sorted(rows)],
        [NotFinite(*key, numbers[key]) for key in sorted(numbers)],
    )


def without_truncated(rows: Sequence[pa.Table], fact: Fact, truncated: set[str]) -> list[pa.Table]:
    """Return a fact's rows without what it had of the tables that were truncated after it.

    Raises AuditIncomplete where one is a part of a measure that has other parts: the fact does not
    know how much that was.
    """
    gone = []
    for place, measure in enumerate(fact.measures):
        lost = sorted(truncated & set(measure.of))
        if lost and len(lost) < len(measure.of):
            raise AuditIncomplete(
                f"{fact.part(lost[0]).table} was truncated after {fact.relation} was built, and"
                f" {measure.name} adds up other tables too",
                "`dbt build`, then the audit again",
            )
        if lost:
            gone.append(place)
    names = sums.sum_names(len(fact.measures))
    kept = []
    for table in rows:
        nothing = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
        for place in gone:
            at = table.schema.get_field_index(names[place])
            table = table.set_column(at, names[place], nothing)
        kept.append(table)
    return kept


@dataclass
class Comparing:
    """The comparison of a fact with the counts, bucket by bucket.

    Of the measures in `uncertain` rows went with a partition: a count may be larger than counted,
    and a sum is not compared. The largest `limit` differences are listed.
    """

    fact: Fact
    slot: str
    uncertain: Collection[str]
    limit: int
    _groups: int = 0
    _totals: list[Number] = field(default_factory=list)
    _different: int = 0
    _largest: list[tuple[Number, Difference]] = field(default_factory=list)

    def add(self, forward: Sequence[pa.Table], counted: Sequence[pa.Table]) -> None:
        """Compare the groups of a bucket: the fact's at the position, and the counts."""
        measures = self.fact.measures
        names = sums.sum_names(len(measures))
        found = sums.side_by_side(forward, counted, names)
        if found is None:
            return
        both = [name for name in found.schema.names if not sums.is_key(name)]
        self._groups += found.num_rows
        totals = sums.added(found.select(both), [], both).to_pylist()
        own = [parse(str(each)) for row in totals for each in row.values()] or [0] * len(both)
        self._totals = [
            add(one, more) for one, more in zip(self._totals or [0] * len(both), own, strict=True)
        ]
        dimensions = sums.dimensions_of(found, self.fact, self.slot)
        for measure, name in zip(measures, names, strict=True):
            left, right = (
                sums.texts_of(found[f"{name}_{side}"].combine_chunks()) for side in (0, 1)
            )
            wrong = compute.indices_nonzero(compute.not_equal(left, right))
            texts = (each.take(wrong).to_pylist() for each in (*dimensions, left, right))
            self._note(measure.name, measure.kind == "count", zip(*texts, strict=True))

    def _note(self, measure: str, is_count: bool, wrong: Iterable[tuple[str | None, ...]]) -> None:
        names = [each.name for each in self.fact.dimensions]
        for *group, left, right in wrong:
            size = EXACT.subtract(*(EXACT.create_decimal(str(text)) for text in (left, right)))
            if measure in self.uncertain and not (is_count and size < 0):
                continue
            self._different += 1
            each = Difference(dict(zip(names, group, strict=True)), measure, str(left), str(right))
            self._largest.append((abs(size), each))
            if len(self._largest) > 2 * max(self.limit, CORRECTED):
                self._largest = self._first()

    def _first(self) -> list[tuple[Number, Difference]]:
        return heapq.nsmallest(max(self.limit, CORRECTED), self._largest, key=_order)

    def result(self) -> Comparison:
        """Return what all buckets came to."""
        wrong = [each for _, each in self._first()]
        numbers = iter(map(print_number, self._totals or [0] * 2 * len(self.fact.measures)))
        totals = {each.name: Total(next(numbers), next(numbers)) for each in self.fact.measures}
        return Comparison(self._groups, totals, self._different, wrong[: self.limit], wrong)


def _order(found: tuple[Number, Difference]) -> tuple[Number, str, list[tuple[bool, str]]]:
    size, each = found
    return (
        -size,
        each.measure,
        [(text is not None, text or "") for text in each.dimensions.values()],
    )


def archived_totals(archived: Sequence[pa.Table], fact: Fact) -> dict[str, str]:
    """Return by measure that keeps what was deleted from a table how much that is."""
    kept = {part.name for part in fact.tables if part.ignores_deletes}
    names = sums.sum_names(len(fact.measures))
    found: dict[str, str] = {}
    for measure, name in zip(fact.measures, names, strict=True):
        if kept & set(measure.of):
            found[measure.name] = sums.total_of(archived, name)
    return found
