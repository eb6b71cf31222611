"""What a replay found: as rows, for a person and as JSON (docs/archive.md). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archiving.manifests import Baseline
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waltally import lsn
from waltally.facts import Dimension, Fact, digits_of
from waltally.units import plural

JSON_VERSION = 2
"""To be raised when a field of the JSON changes its meaning or is removed."""


@dataclass(frozen=True)
class Difference:
    """A group that the fact and the replay have with other numbers, by measure as texts."""

    dimensions: Mapping[str, str | None]
    fact: Mapping[str, str]
    replay: Mapping[str, str]

    def __str__(self) -> str:
        group = ", ".join(f"{name} {value}" for name, value in self.dimensions.items())
        wrong = ", ".join(
            f"{name} {number} and not {self.replay[name]}"
            for name, number in self.fact.items()
            if number != self.replay[name]
        )
        return f"{group}: the fact has {wrong}"


@dataclass(frozen=True)
class ReplayedFact:
    """A fact at `position`; `totals` are of each measure, as texts.

    Where dbt's fact was compared, `difference_count` is how many groups differ, else None.
    """

    fact: Fact
    position: int
    baseline: Baseline | None
    groups: int
    totals: Mapping[str, str]
    difference_count: int | None
    differences: Sequence[Difference]

    def as_json(self) -> dict[str, Any]:
        """Return the fact's part of what --json prints."""
        found = self.baseline
        return {
            "position": lsn.show(self.position),
            "baseline_id": found and found.baseline_id,
            "snapshot_lsn": found and lsn.show(found.snapshot_lsn),
            "groups": self.groups,
            "totals": dict(self.totals),
            "difference_count": self.difference_count,
            "differences": [each.__dict__ for each in self.differences],
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        yield from map(str, self.differences)
        if self.difference_count is not None:
            differ = "differs" if self.difference_count == 1 else "differ"
            yield f"{plural(self.difference_count, 'group')} {differ} from {self.fact.relation}"
        totals = ", ".join(f"{name} {number}" for name, number in self.totals.items())
        yield (
            f"{self.fact.name}: {totals} in {plural(self.groups, 'group')} as of"
            f" {lsn.show(self.position)}"
        )


@dataclass(frozen=True)
class Replay:
    """The facts that were computed."""

    slot: str
    facts: Sequence[ReplayedFact]
    seconds: float

    @property
    def differing(self) -> list[ReplayedFact]:
        """The facts that differ from what dbt has built."""
        return [each for each in self.facts if each.difference_count]

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints: a contract."""
        return {
            "version": JSON_VERSION,
            "slot": self.slot,
            "facts": {each.fact.name: each.as_json() for each in self.facts},
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> Iterator[str]:
        """Yield what a person reads."""
        for each in self.facts:
            yield from each.lines()
        yield f"{self.seconds:.1f} s"


MAX_DIGITS = 38
"""Of Spark's decimals."""


def as_rows(groups: DataFrame, fact: Fact) -> DataFrame:
    """Return the groups with the columns that the fact's table has, but the derived ones.

    Dimensions are texts. A measure is a whole number, a decimal where its type says how large, else
    a number's text.
    """
    dimensions = [
        sql.get("dimensions", place).alias(each.name) for place, each in enumerate(fact.dimensions)
    ]
    if fact.kind == "current_rows":
        return groups.select(*dimensions)
    measures = [
        sql.get("sums", place).cast(_spark_type(each.type)).alias(each.name)
        for place, each in enumerate(fact.measures)
    ]
    return groups.select(row_id(fact).alias("id"), *dimensions, *measures)


def row_id(fact: Fact) -> Column:
    """Return the id that the fact gives a group: md5(row(its dimensions)::text)::uuid."""
    values = [_in_row(place, each) for place, each in enumerate(fact.dimensions)]
    separated = [part for value in values for part in (sql.lit(","), value)][1:]
    text = sql.concat(sql.lit("("), *separated, sql.lit(")"))
    return sql.regexp_replace(sql.md5(text), "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")


def _in_row(place: int, dimension: Dimension) -> Column:
    """Return the value as PostgreSQL prints it within a row; null is nothing at all."""
    value = sql.get("dimensions", place)
    if dimension.type == "boolean":
        # As its output function prints it; the text of a dimension is that of the cast.
        value = sql.substring(value, 1, 1)
    doubled = sql.regexp_replace(value, r'(["\\])', "$1$1")
    needs_quotes = (value == "") | value.rlike(r'[ \t\n\x0B\f\r"\\(),]')
    quoted = sql.when(needs_quotes, sql.concat(sql.lit('"'), doubled, sql.lit('"')))
    return sql.coalesce(quoted, value, sql.lit(""))


def _spark_type(type_: str) -> str:
    """Return Spark's type of a measure."""
    if type_ == "bigint":
        return type_
    digits = digits_of(type_)
    if digits is None or digits[0] > MAX_DIGITS:
        return "string"
    return f"decimal{digits}"
