"""The current rows of a table: what a change does to them, and what many changes come to. Pure.

The old image of a change only says which row it was, so the changes of a row follow one another in
their order. A new image may lack a value that is stored out of line and did not change: it is that
of the row before, which may have had another key. The dbt macros read_row_changes and
explain_row_rejection are the same in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rules import values
from rules.messages import Change, Values, text_of
from waltally.facts import Fact

Key = tuple[str | None, ...]
Cell = tuple[bool, str | None]
"""Whether an image has a value, and its text."""


@dataclass(frozen=True)
class Event:
    """A change: the key of the row that it takes away and the values of the one that it puts.

    With neither key nor values it is a TRUNCATE.
    """

    gone: Key | None
    came: tuple[Cell, ...] | None
    came_key: Key | None


@dataclass(frozen=True)
class Row:
    """A row after the changes; a value that the changes do not have is that of the row `before`."""

    values: tuple[Cell, ...]
    before: Key | None


class Judged(NamedTuple):
    """What a change does, or None where it does nothing; why something of it cannot be applied."""

    event: Event | None
    reason: str | None
    left_out: int
    """How many rows more or fewer have no key."""


class RowRules:
    """The rules for the current rows of a table."""

    def __init__(self, fact: Fact, slot: str) -> None:
        """Compile them."""
        (self.part,) = fact.tables
        self.columns = fact.used_columns(self.part)
        """What an image carries, as the declaration calls it."""
        self._dimensions = fact.dimensions
        self._places = [
            None if each.column is None else self.columns.index(each.column)
            for each in fact.dimensions
        ]
        self._is_key = [each.name in fact.key for each in fact.dimensions]
        self._read = [values.read(each) for each in fact.dimensions]
        self._refuse = [
            values.refuse(each, is_key=is_key)
            for each, is_key in zip(fact.dimensions, self._is_key, strict=True)
        ]
        self._print = [values.print_value(each) for each in fact.dimensions]
        self._label = [values.label(each) for each in fact.dimensions]
        self._refuse_key = values.refuse_key(fact)
        self._slot = slot

    def judge(self, change: Change) -> Judged:
        """Return what a change does, whose images have the values of `columns`."""
        if change.problem is not None:
            return Judged(None, change.problem, 0)
        old, new = self._cells(change.old), self._cells(change.new)
        has_old, has_new = self._has_key(old), self._has_key(new)
        if has_new and (absent := self._absent(new, only_key=change.action == "U")):
            return Judged(None, f"the row has no column {absent}", 0)
        if has_old and (absent := self._absent(old, only_key=True)):
            return Judged(None, f"the replica identity does not carry the old {absent}", 0)
        reason = self._refused(new, only_key=False) if has_new else None
        gone = came = key = None
        if has_old and self._refused(old, only_key=True) is None:
            gone = self._key(old)
        if has_new and reason is None:
            came, key = self._printed(new), self._key(new)
        left_out = int(change.new is not None and not has_new)
        left_out -= int(change.old is not None and not has_old)
        event = None if gone is None and came is None else Event(gone, came, key)
        return Judged(event, reason, left_out)

    def _cells(self, row: Values | None) -> Sequence[Cell]:
        """Return what the image has for each column of the model, as `values.read` does."""
        if row is None:
            return ()
        cells: list[Cell] = []
        for place, read in zip(self._places, self._read, strict=True):
            if place is None:
                cells.append((True, self._slot))
            elif (raw := row[place]) is None:
                cells.append((False, None))
            else:
                cells.append((True, read(text_of(raw))))
        return cells

    def _has_key(self, cells: Sequence[Cell]) -> bool:
        return bool(cells) and (True, None) not in self._of_key(cells)

    def _of_key(self, cells: Sequence[Cell]) -> list[Cell]:
        return [cell for cell, is_key in zip(cells, self._is_key, strict=True) if is_key]

    def _absent(self, cells: Sequence[Cell], *, only_key: bool) -> str:
        columns = (
            str(each.column)
            for each, (is_there, _), is_key in zip(
                self._dimensions, cells, self._is_key, strict=True
            )
            if not is_there and (is_key or not only_key)
        )
        return ", ".join(dict.fromkeys(columns))

    def _refused(self, cells: Sequence[Cell], *, only_key: bool) -> str | None:
        """Return the first reason why the model cannot hold the values, or only the key."""
        labels: dict[str, str | None] = {}
        for place, (_, value) in enumerate(cells):
            if only_key and not self._is_key[place]:
                continue
            dimension = self._dimensions[place]
            if dimension.column and (reason := self._refuse[place](value)):
                return reason
            labels[dimension.name] = self._label[place](value)
        return self._refuse_key(labels)

    def _printed(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        return tuple(
            (is_there, text if place is None else print_value(text))
            for (is_there, text), place, print_value in zip(
                cells, self._places, self._print, strict=True
            )
        )

    def _key(self, cells: Sequence[Cell]) -> Key:
        return tuple(text for _, text in self._of_key(self._printed(cells)))


TRUNCATE = Event(None, None, None)


def folded(events: Iterable[Event]) -> tuple[dict[Key, Row | None], bool]:
    """Return the last state of each key that changed, and whether a TRUNCATE came before them.

    None where the row is gone. The events are in their order.
    """
    states: dict[Key, Row | None] = {}
    is_emptied = False
    for event in events:
        if event.gone is None and event.came is None:
            states, is_emptied = {}, True
            continue
        then: Row | None = None
        if event.gone is not None:
            then = states.get(event.gone)
            if event.gone not in states:
                unknown = (False, None)
                then = Row((unknown,) * len(event.came or ()), event.gone)
            states[event.gone] = None
        if event.came is not None and event.came_key is not None:
            states[event.came_key] = _completed(event.came, then)
    return states, is_emptied


def _completed(came: tuple[Cell, ...], then: Row | None) -> Row:
    if then is None:
        return Row(came, None)
    cells = tuple(new if new[0] else old for new, old in zip(came, then.values, strict=True))
    return Row(cells, then.before)
