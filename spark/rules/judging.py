"""What a change does to a fact: the groups of its images, what they add, or why it cannot count.

Pure. The dbt macros list_values, compute_deltas and explain_rejection are the same in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from rules import values
from rules.messages import Change, Values, text_of
from rules.numbers import Number
from waltally.facts import Condition, Fact, FactTable, Measure

Group = tuple[str | None, ...]
"""The texts of a fact's dimensions."""

ABSENT: Final = object()
"""The text of a column that an image lacks."""

_REMEMBERED = 50_000


class Image(NamedTuple):
    """A row as a fact sees it."""

    values: tuple[Any, ...]
    """What the row is for the fact: two rows with equal values are alike."""
    meets: bool
    """Whether it meets the fact's conditions, as far as its columns say."""
    has: bool
    """Whether it belongs to a group: it does not where a null leaves it out."""
    absent: str
    """The columns that it lacks; empty where it has all."""
    reason: str | None
    """Why its values cannot be counted; None where they can, and where it has no group."""
    group: Group
    adds: tuple[Number, ...]
    """What it adds to each measure, before its sign. Both are empty where it does not count."""


@dataclass(frozen=True)
class Verdict:
    """What a change does to a fact: images with their sign, and why something cannot be counted.

    With `is_ignored` the row was deleted from a table whose deletes the fact ignores, so it stays
    counted. An image without a group has a sign too: it is a row more or fewer that is left out.
    A new image that cannot be counted adds nothing, so it takes nothing away once it is the old
    one: of a row that is corrected only the new image counts, and of one that becomes bad only the
    old one.
    """

    reason: str | None = None
    signed: tuple[tuple[int, Image], ...] = ()
    is_ignored: bool = False


_NOTHING = Verdict()


class PartRules:
    """The rules for the rows of one table of a fact.

    What the fact makes of a row is kept, and of the values of a row too: most come again.
    """

    def __init__(self, fact: Fact, part: FactTable, slot: str) -> None:
        """Compile them."""
        self.part = part
        self.columns = fact.used_columns(part)
        """What an image must carry, as the declaration calls it."""
        self._keys = _KeyRules(fact, slot)
        self._read: list[_Value] = [
            self._value(str(each.column), values.read(each))
            for each in fact.dimensions
            if each.column
        ]
        self._key_count = len(self._read)
        summed = fact.summed_columns(part)
        self._read += [self._value(column, lambda text: text) for column in summed]
        self._first_test = len(self._read)
        self._refused_tests: list[str | None] = []
        self._add_tests(fact.where)
        self._end_of_where = len(self._read)
        self._measures = [self._measure(each, summed) for each in fact.measures]
        self._rows: dict[Values, Image] = {}
        self._images: dict[tuple[Any, ...], Image] = {}

    def judge(self, change: Change) -> Verdict:
        """Return what a change does, whose images have the values of `columns`."""
        if change.problem is not None:
            return Verdict(change.problem)
        new = None if change.new is None else self.image(change.new)
        old = None if change.old is None else self.image(change.old)
        if new and old and new.values == old.values and not new.absent and not old.absent:
            return _NOTHING
        if new and new.has and new.absent:
            return Verdict(f"the row has no column {new.absent}")
        if old and old.has and old.absent:
            # It may have changed too, so it is never guessed.
            return Verdict(f"the replica identity does not carry the old {old.absent}")
        signed = tuple(
            (sign, image)
            for sign, image in ((1, new), (-1, old))
            if image and image.meets and image.reason is None
        )
        is_ignored = change.action == "D" and self.part.ignores_deletes
        return Verdict(new.reason if new else None, signed, is_ignored)

    def image(self, row: Values) -> Image:
        """Return what a row is for the fact."""
        image = self._rows.get(row)
        if image is None:
            alike = tuple([read(row[place]) for place, read in self._read])
            image = self._images.get(alike)
            if image is None:
                image = _keep(self._images, alike, self._judge(alike))
            _keep(self._rows, row, image)
        return image

    def _judge(self, alike: tuple[Any, ...]) -> Image:
        met = alike[self._first_test : self._end_of_where]
        key = self._keys.judge(alike[: self._key_count])
        meets = False not in met
        has = meets and not key.is_left_out
        if ABSENT in alike:
            places = (
                place
                for (place, _), value in zip(self._read, alike, strict=True)
                if value is ABSENT
            )
            absent = ", ".join(self.columns[place] for place in dict.fromkeys(places))
            return Image(alike, meets, has, absent, None, (), ())
        reason = self._refuse(key, alike) if has else None
        if reason is not None or not has:
            return Image(alike, meets, has, "", reason, (), ())
        adds = tuple([each.adds(alike) for each in self._measures])
        return Image(alike, meets, has, "", None, key.group, adds)

    def _refuse(self, key: _Key, alike: tuple[Any, ...]) -> str | None:
        """Return the first reason why a row's values cannot be counted."""
        if key.reason:
            return key.reason
        if None in alike[self._first_test :]:
            tests = zip(self._refused_tests, alike[self._first_test :], strict=True)
            return next(refused for refused, is_met in tests if is_met is None)
        for measure in self._measures:
            if measure.factors and (reason := measure.refuse(alike)):
                return reason
        return None

    def _value(self, column: str, read: Callable[[str | None], Any]) -> _Value:
        def find(raw: bytes | None) -> Any:
            return ABSENT if raw is None else read(text_of(raw))

        return _Value(self.columns.index(column), values.remembered(find))

    def _add_tests(self, where: Sequence[Condition]) -> tuple[int, ...]:
        """Have conditions tested, and return where the answers are."""
        first = len(self._read)
        for each in by_column(where):
            self._read.append(self._value(each[0].column, values.holds(each)))
            self._refused_tests.append(values.refuse_bound(each))
        return tuple(range(first, len(self._read)))

    def _measure(self, measure: Measure, summed: Sequence[str]) -> _MeasureRules:
        refuse = values.refuse_factors(measure)
        if self.part.name not in measure.of:
            return _MeasureRules(False, (), (), refuse)
        factors = tuple(self._key_count + summed.index(each) for each in measure.columns)
        return _MeasureRules(True, self._add_tests(measure.where), factors, refuse)


class _Value(NamedTuple):
    """What a column of a row is read as."""

    place: int
    read: Callable[[bytes | None], Any]


class _MeasureRules(NamedTuple):
    """A measure, of the rows of one table."""

    is_of_table: bool
    tests: tuple[int, ...]
    factors: tuple[int, ...]
    refuse_factors: Callable[[Sequence[str | None]], str | None]

    def _is_measured(self, alike: Sequence[Any]) -> bool:
        return self.is_of_table and all(alike[place] for place in self.tests)

    def adds(self, alike: Sequence[Any]) -> Number:
        if not self._is_measured(alike):
            return 0
        return values.amount([alike[place] for place in self.factors]) if self.factors else 1

    def refuse(self, alike: Sequence[Any]) -> str | None:
        if not self._is_measured(alike):
            return None
        return self.refuse_factors([alike[place] for place in self.factors])


class _Key(NamedTuple):
    """What the values of the dimensions are together."""

    is_left_out: bool
    """Because of a null."""
    reason: str | None
    group: Group


class _KeyRules:
    """The rules for the dimensions that come from columns, and the group that they make."""

    def __init__(self, fact: Fact, slot: str) -> None:
        self._dimensions = [
            (
                each.name,
                each.nulls == "leave_out",
                values.refuse(each),
                values.label(each),
                values.print_value(each),
            )
            for each in fact.dimensions
            if each.column
        ]
        self._refuse_key = values.refuse_key(fact)
        places = iter(range(len(self._dimensions)))
        self._output = [next(places) if each.column else None for each in fact.dimensions]
        self._slot = slot
        self._known: dict[tuple[Any, ...], _Key] = {}

    def judge(self, read: tuple[Any, ...]) -> _Key:
        """Return what the values of `values.read` are together, some of which may be absent."""
        key = self._known.get(read)
        return _keep(self._known, read, self._judge(read)) if key is None else key

    def _judge(self, read: tuple[Any, ...]) -> _Key:
        printed: list[str | None] = []
        labels: dict[str, str | None] = {}
        is_left_out, reason = False, None
        for value, each in zip(read, self._dimensions, strict=True):
            name, leaves_out, refuse, label, print_value = each
            if value is ABSENT:
                continue
            is_left_out = is_left_out or (value is None and leaves_out)
            reason = reason or refuse(value)
            if reason is None:
                labels[name] = label(value)
                printed.append(print_value(value))
        if ABSENT in read or is_left_out or reason:
            return _Key(is_left_out, reason, ())
        group = tuple(self._slot if at is None else printed[at] for at in self._output)
        return _Key(False, self._refuse_key(labels), group)


def by_column(conditions: Sequence[Condition]) -> list[tuple[Condition, ...]]:
    """Return the conditions on each column."""
    return [
        tuple(each for each in conditions if each.column == column)
        for column in dict.fromkeys(each.column for each in conditions)
    ]


_Found = TypeVar("_Found")


def _keep(known: dict[Any, _Found], key: object, value: _Found) -> _Found:
    """Return the value, which is found again until too many others came."""
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value
    return value
