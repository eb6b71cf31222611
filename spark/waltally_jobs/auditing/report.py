"""The audit's report, for a person and as JSON (docs/spark.md#the-audit). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from waltally import lsn
from waltally.errors import LoaderError
from waltally.escapes import escaped
from waltally.units import plural

JSON_VERSION = 4
"""To be raised when a field of the JSON changes its meaning or is removed."""


EXACT = Context(prec=150_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Rounds no number that a database has: 131,072 digits before the point and 16,383 after it."""


@dataclass(frozen=True)
class Compared:
    """A measure in the model and the right one, as number texts.

    None: there is no such group, or it has no value to add up.
    """

    measure: str
    model: str | None
    counted: str | None

    @property
    def difference(self) -> str:
        """How much too large the model's is; negative where it is too small."""
        exact = f"{EXACT.subtract(Decimal(self.model or 0), Decimal(self.counted or 0)):f}"
        return exact.rstrip("0").rstrip(".") if "." in exact else exact

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        return {**asdict(self), "difference": self.difference}

    def __str__(self) -> str:
        sign = "" if self.difference.startswith("-") else "+"
        return (
            f"{self.measure} is {shown(self.model)}, counted {shown(self.counted)}, difference"
            f" {sign}{shown(self.difference)}"
        )


@dataclass(frozen=True)
class Difference(Compared):
    """A wrong value of a group."""

    dimensions: Mapping[str, str | None]

    def __str__(self) -> str:
        group = ", ".join(f"{name} {text or 'null'}" for name, text in self.dimensions.items())
        return f"{group}: {super().__str__()}"


@dataclass(frozen=True)
class Comparison:
    """The model against the counts: the largest `differences`, and `difference_count` of all.

    `totals` are of each measure over all groups.
    """

    group_count: int
    totals: Sequence[Compared]
    difference_count: int
    differences: Sequence[Difference]


@dataclass(frozen=True)
class RejectedRows:
    """Rows of one table that cannot be counted, for one reason."""

    source_table: str
    reason: str
    row_count: int


@dataclass(frozen=True)
class ModelReport:
    """One model against the tables at the report's snapshot.

    The model is read at `model_lsn`, where the snapshot is. `purged` is how much of each measure is
    of ignored deletes; `unseen` says why there may be more. `rejected_count` changes could
    not be counted, the first at `rejected_lsn`.
    """

    name: str
    relation: str
    model_lsn: int
    comparison: Comparison
    purged: Mapping[str, str]
    unseen: str
    rejected_count: int
    rejected_lsn: int | None
    rejected_rows: Sequence[RejectedRows]
    counted = "the tables"
    """What it is compared with."""

    @property
    def difference_count(self) -> int:
        """How many values differ."""
        return self.comparison.difference_count

    @property
    def notes(self) -> list[str]:
        """Known causes of differences."""
        if self.rejected_lsn is None:
            return []
        return [
            f"{plural(self.rejected_count, 'change')} could not be counted, the first at"
            f" {lsn.show(self.rejected_lsn)}; rejected_changes says why"
        ]

    def remedy(self) -> str:
        """Return what makes the model right, as the end of an error."""
        return f"`spark-submit spark/seed.py --model {self.name}`, then `dbt build`"

    def as_json(self) -> dict[str, Any]:
        """Return the model's part of what --json prints."""
        comparison, first = self.comparison, self.rejected_lsn
        return {
            "equal": self.difference_count == 0,
            "relation": self.relation,
            "model_lsn": lsn.show(self.model_lsn),
            "group_count": comparison.group_count,
            "totals": {each.measure: each.as_json() for each in comparison.totals},
            "difference_count": self.difference_count,
            "differences": [each.as_json() for each in comparison.differences],
            "purged": dict(self.purged),
            "unseen": {each.measure: self.unseen for each in comparison.totals if self.unseen},
            "rejected": {
                "count": self.rejected_count,
                "first_lsn": None if first is None else lsn.show(first),
            },
            "rejected_rows": [asdict(each) for each in self.rejected_rows],
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """Yield the model's part of the report."""
        comparison = self.comparison
        yield _headline(self, comparison.group_count) + f" at {lsn.show(self.model_lsn)}"
        yield from (f"  {line}" for line in self._details(comparison))

    def _details(self, comparison: Comparison) -> Iterator[str]:
        yield from map(str, comparison.differences)
        if hidden := self.difference_count - len(comparison.differences):
            are = "is" if hidden == 1 else "are"
            yield f"and {plural(hidden, 'difference')} that {are} not larger; --limit shows more"
        if self.difference_count:
            yield from (f"Note: {note}" for note in self.notes)
        for each in self.rejected_rows:
            yield f"Rejected: {plural(each.row_count, 'row')} of {each.source_table}: {each.reason}"
        for measure, amount in self.purged.items():
            if not self.unseen and Decimal(amount):
                yield (
                    f"{shown(amount)} of {measure} is of rows that were purged: the tables lack"
                    " them, and they were written down"
                )
        if self.unseen:
            yield (
                "it may be too high without being listed, as not all purged rows are known:"
                f" {self.unseen}"
            )
        if self.difference_count:
            yield from (f"in all {total}" for total in comparison.totals)
        else:
            yield ", ".join(f"{each.measure} {shown(each.model)}" for each in comparison.totals)


@dataclass(frozen=True)
class Wrong:
    """A wrong value of a model over models: its group, the column, the value and the right one.

    None: there is no such group, or the value is null.
    """

    keys: Mapping[str, str | None]
    column: str
    model: str | None
    counted: str | None

    def __str__(self) -> str:
        group = ", ".join(f"{name} {_text(text)}" for name, text in self.keys.items())
        value = f"{self.column} is {_text(self.model)}, the query gives {_text(self.counted)}"
        return f"{group}: {value}" if group else value


@dataclass(frozen=True)
class DependentReport:
    """A model over models against its query over its inputs; the first of what differs.

    `notes` name an input that does not follow: then both may be behind.
    """

    name: str
    relation: str
    group_count: int
    difference_count: int
    differences: Sequence[Wrong]
    notes: Sequence[str]
    counted = "its query"
    """What it is compared with."""

    def remedy(self) -> str:
        """Return what makes it right."""
        return f"`dbt build --full-refresh --select {self.name}`"

    def lines(self) -> Iterator[str]:
        """Yield its part of the report."""
        yield _headline(self, self.group_count) + ", beside its query over the models that it reads"
        yield from (f"  {difference}" for difference in self.differences)
        yield from (f"  Note: {note}" for note in self.notes)


@dataclass(frozen=True)
class Report:
    """The models against the tables at `snapshot_lsn`; `refused` by name those not compared."""

    slot: str
    snapshot_lsn: int
    models: Sequence[ModelReport]
    refused: Mapping[str, LoaderError]
    seconds: float
    over_models: Sequence[DependentReport] = ()

    @property
    def differing(self) -> list[ModelReport | DependentReport]:
        """The models that differ."""
        compared: list[ModelReport | DependentReport] = [*self.models, *self.over_models]
        return [each for each in compared if each.difference_count]

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints: a contract."""
        return {
            "version": JSON_VERSION,
            "equal": not (self.differing or self.refused),
            "slot": self.slot,
            "snapshot_lsn": lsn.show(self.snapshot_lsn),
            "models": {each.name: each.as_json() for each in self.models},
            "over_models": {each.name: asdict(each) for each in self.over_models},
            "refused": {name: str(error) for name, error in self.refused.items()},
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        for each in self.models:
            yield from each.lines()
        for dependent in self.over_models:
            yield from dependent.lines()
        yield f"compared at {lsn.show(self.snapshot_lsn)} in {self.seconds:.1f} s"


def _headline(report: ModelReport | DependentReport, groups: int) -> str:
    found = plural(report.difference_count, "difference")
    return f"{report.relation}: {found} in {plural(groups, 'group')}"


def _text(value: str | None) -> str:
    return "null" if value is None else escaped(value)


def shown(number: str | None) -> str:
    """Return a number for people."""
    return "null" if number is None else f"{Decimal(number):,f}"
