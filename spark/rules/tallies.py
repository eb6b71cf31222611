"""Counts changes for several facts at once: groups with exact sums, and what has no group. Pure.

Most changes look alike, so each combination of the values that any of the facts needs is judged
once for all changes that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeVar

from rules import messages
from rules.judging import Group, PartRules
from rules.messages import Change, Payload, Values
from rules.numbers import Number, add, multiply
from waltally.facts import Fact, needed_columns, source_tables
from waltally.tables import Table

Position = tuple[int, int]
"""A change's commit LSN and its ordinal in the transaction."""

Row = tuple[int, int, str | None, Payload]
"""A change of the log: its position, its action where the loader knows it, and its payload."""

Key = TypeVar("Key")
Sums = list[Number]
"""A number for each measure."""

_HELD = 200_000
"""Combinations that are held before they are judged."""


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, the position of the first one and why it could not."""

    count: int
    first_lsn: int | None
    first_reason: str | None = None

    def beside(self, other: Rejected) -> Rejected:
        """Return both together, of which either may come first."""
        is_first = self.first_lsn is None or (other.first_lsn or 0) < self.first_lsn
        return other.and_then(self) if other.count and is_first else self.and_then(other)

    def and_then(self, later: Rejected) -> Rejected:
        """Return both together."""
        first = later if self.first_lsn is None else self
        return Rejected(self.count + later.count, first.first_lsn, first.first_reason)


@dataclass
class Tally:
    """What changes do to one fact.

    `groups` are by the fact's name of the table; `archived` are the deletes that the fact ignores,
    by their commit LSN too. `left_out` is by table how many rows more or fewer belong to no group;
    `purged` is how many such rows were deleted from a table whose deletes are ignored. `lacking`
    is by table and reason.
    """

    groups: dict[tuple[str, Group], Sums] = field(default_factory=dict)
    archived: dict[tuple[str, Group, int], Sums] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    purged: dict[str, int] = field(default_factory=dict)
    rejected_count: int = 0
    first_rejected: tuple[int, str] | None = None
    """The commit LSN of the first change that cannot be counted, and why."""
    last_rejected_lsn: int | None = None


@dataclass
class _Alike:
    """Changes that look alike."""

    count: int
    first_lsn: int
    last_lsn: int


class Counting:
    """Counts the changes of a range for several facts.

    A change before the last TRUNCATE of its table counts for nothing, but it can be rejected.
    """

    def __init__(
        self, facts: Sequence[Fact], slot: str, truncates: Mapping[Table, Position] | None = None
    ) -> None:
        """Compile the rules of the facts; `truncates` says where each table was last emptied."""
        self.tallies = [Tally() for _ in facts]
        tables = source_tables(facts)
        columns = {table: needed_columns(facts, table) for table in tables}
        self._read = messages.reader(columns)
        self._rules = [
            [
                _Rules(tally, PartRules(fact, part, slot), columns[table])
                for fact, tally in zip(facts, self.tallies, strict=True)
                for part in fact.tables
                if part.table == table
            ]
            for table in tables
        ]
        emptied = truncates or {}
        self._truncates = {
            number: emptied[table] for number, table in enumerate(tables) if table in emptied
        }
        self._ignoring = {
            number
            for number, rules in enumerate(self._rules)
            if any(each.rules.part.ignores_deletes for each in rules)
        }
        self._alike: dict[tuple[Change, bool, int], _Alike] = {}

    def count(self, rows: Iterable[Row]) -> None:
        """Count changes, in any order."""
        read, alike = self._read, self._alike
        truncates, ignoring = self._truncates, self._ignoring
        for lsn, ordinal, letter, payload in rows:
            change = read(letter, payload)
            if change is None:
                continue
            table, action, _, old, new = change
            if action == "U" and old == new and old is not None and None not in old:
                continue
            is_cancelled = table in truncates and (lsn, ordinal) <= truncates[table]
            key = change, is_cancelled, lsn if action == "D" and table in ignoring else 0
            same = alike.get(key)
            if same is None:
                alike[key] = _Alike(1, lsn, lsn)
            else:
                same.count += 1
                if lsn > same.last_lsn:
                    same.last_lsn = lsn
                elif lsn < same.first_lsn:
                    same.first_lsn = lsn
        if len(alike) > _HELD:
            self._judge()

    def finish(self) -> list[Tally]:
        """Return what the changes do to each fact, in the order of the facts."""
        self._judge()
        return self.tallies

    def _judge(self) -> None:
        for (change, is_cancelled, lsn), alike in self._alike.items():
            if change.table is not None:
                for rules in self._rules[change.table]:
                    rules.add(change, is_cancelled, lsn, alike)
            else:
                # Nobody knows whose change it is.
                assert change.problem is not None
                for tally in self.tallies:
                    _reject(tally, change.problem, alike)
        self._alike.clear()


class _Rules:
    """The rules of one table of a fact, and what they are counted into."""

    def __init__(self, tally: Tally, rules: PartRules, columns: Sequence[str]) -> None:
        self.rules = rules
        self._tally = tally
        own = [columns.index(rules.part.column(column)) for column in rules.columns]
        self._own = _chooser(own, len(columns))

    def add(self, change: Change, is_cancelled: bool, lsn: int, alike: _Alike) -> None:
        old, new = change.old, change.new
        if self._own is not None:
            old, new = old and self._own(old), new and self._own(new)
            change = change._replace(old=old, new=new)
        verdict = self.rules.judge(change)
        tally, part = self._tally, self.rules.part.name
        if verdict.reason is not None:
            _reject(tally, verdict.reason, alike)
        if is_cancelled:
            return
        for sign, image in verdict.signed:
            times = sign * alike.count
            if not image.has:
                rows = tally.purged if verdict.is_ignored else tally.left_out
                rows[part] = rows.get(part, 0) + times
            elif verdict.is_ignored:
                add_sums(tally.archived, (part, image.group, lsn), image.adds, alike.count)
            else:
                add_sums(tally.groups, (part, image.group), image.adds, times)


def add_sums(groups: dict[Key, Sums], key: Key, adds: Sequence[Number], times: int = 1) -> None:
    """Add numbers so many times to the sums of a group."""
    sums = groups.get(key)
    if sums is None:
        groups[key] = [multiply(each, times) for each in adds]
        return
    for place, each in enumerate(adds):
        if each:
            sums[place] = add(sums[place], multiply(each, times))


def _chooser(places: Sequence[int], size: int) -> Callable[[Values], Values] | None:
    """Return what takes the values at these places; None where these are all, in their order."""
    if list(places) == list(range(size)):
        return None
    if not places:
        return lambda values: ()
    if len(places) == 1:
        (place,) = places
        return lambda values: (values[place],)
    return itemgetter(*places)


def _reject(tally: Tally, reason: str, alike: _Alike) -> None:
    tally.rejected_count += alike.count
    if tally.first_rejected is None or alike.first_lsn < tally.first_rejected[0]:
        tally.first_rejected = alike.first_lsn, reason
    last = tally.last_rejected_lsn
    tally.last_rejected_lsn = alike.last_lsn if last is None else max(last, alike.last_lsn)
