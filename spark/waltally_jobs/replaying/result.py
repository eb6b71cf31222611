"""What a replay found: as rows, for a person and as JSON (docs/archive.md). Pure."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from waltally import lsn
from waltally.facts import Fact, digits_of
from waltally.units import plural
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common import sums

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
"""Of Arrow's decimals, which Spark's are too."""


def as_rows(groups: pa.Table, fact: Fact, slot: str) -> pa.Table:
    """Return the groups with the columns that the fact's table has, but the derived ones.

    Dimensions are texts. A measure is a whole number, a decimal where its type says how large, else
    a number's text. Raises ArrowInvalid where a type does not hold a number.
    """
    names = [each.name for each in fact.dimensions]
    dimensions = dict(zip(names, sums.dimensions_of(groups, fact, slot), strict=True))
    if fact.kind == "current_rows":
        return pa.table(dimensions)
    name_group = row_id(fact)
    keys = zip(*(each.to_pylist() for each in dimensions.values()), strict=True)
    ids = map(name_group, keys if names else [()] * groups.num_rows)
    measures = {
        each.name: sums.texts_of(groups[name].combine_chunks()).cast(arrow_type(each.type))
        for each, name in zip(fact.measures, sums.sum_names(len(fact.measures)), strict=True)
    }
    return pa.table({"id": pa.array(ids, pa.string()), **dimensions, **measures})


def row_id(fact: Fact) -> Callable[[Sequence[str | None]], str]:
    """Return what gives a group the fact's id: md5(row(its dimensions)::text)::uuid."""
    printers = [_bool_in_row if each.type == "boolean" else _in_row for each in fact.dimensions]

    def name(group: Sequence[str | None]) -> str:
        values = (show(value) for show, value in zip(printers, group, strict=True))
        text = f"({','.join(values)})"
        return str(uuid.UUID(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()))

    return name


_NEEDS_QUOTES = re.compile(r'[ \t\n\x0B\f\r"\\(),]')


def _in_row(value: str | None) -> str:
    """Return the value as PostgreSQL prints it within a row; null is nothing at all."""
    if value is None:
        return ""
    if value and _NEEDS_QUOTES.search(value) is None:
        return value
    doubled = value.replace("\\", "\\\\").replace('"', '""')
    return f'"{doubled}"'


def _bool_in_row(value: str | None) -> str:
    """Return a boolean as its output function prints it; the text of a dimension is a cast's."""
    return value[:1] if value else ""


def arrow_type(type_: str) -> pa.DataType:
    """Return Arrow's type of a measure."""
    if type_ == "bigint":
        return pa.int64()
    digits = digits_of(type_)
    return pa.string() if digits is None or digits[0] > MAX_DIGITS else pa.decimal128(*digits)
