"""What changes do to the current rows of a table. Pure.

Tasks judge the changes, each an event. The events are folded in their order in one process, which
holds the last state of each row that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as compute
from rules import messages
from rules.judging import Group
from rules.rows import TRUNCATE, Event, RowRules, folded
from rules.tallies import Position, Row
from waltally_jobs.common import sums

from waltally.facts import Fact
from waltally.tables import Table

_TEXTS = pa.list_(pa.string())
_EVENTS = pa.schema(
    [
        pa.field("commit_lsn", pa.int64()),
        pa.field("ordinal", pa.int64()),
        pa.field("gone", _TEXTS),
        pa.field("there", pa.list_(pa.bool_())),
        pa.field("texts", _TEXTS),
        pa.field("key", _TEXTS),
    ]
)


class RowCounting:
    """Judges the changes of a range for the current rows of a table."""

    def __init__(self, fact: Fact, slot: str, truncates: Mapping[Table, Position]) -> None:
        """Compile the rules; `truncates` says where each table was last emptied."""
        self._rules = rules = RowRules(fact, slot)
        table = rules.part.table
        self._last = truncates.get(table)
        self._read = messages.reader({table: [rules.part.column(each) for each in rules.columns]})
        self.rejected: list[tuple[int, str]] = []
        """The commit LSN of each change that cannot be applied, and why."""
        self.left_out = 0
        """How many rows more or fewer have no key."""

    def events(self, rows: Iterable[Row]) -> pa.Table:
        """Return what the changes do, in any order."""
        found = [row for row in map(self._judge, rows) if row is not None]
        columns = zip(*found, strict=True) if found else [()] * len(_EVENTS)
        arrays = [pa.array(each, kind.type) for each, kind in zip(columns, _EVENTS, strict=True)]
        return pa.Table.from_arrays(arrays, schema=_EVENTS)

    def _judge(self, row: Row) -> tuple[object, ...] | None:
        at, ordinal, letter, payload = row
        change = self._read(letter, payload)
        if change is None:
            return _row(at, ordinal, TRUNCATE) if self._last == (at, ordinal) else None
        event, reason, left_out = self._rules.judge(change)
        if reason is not None:
            self.rejected.append((at, reason))
        if self._last is not None and (at, ordinal) < self._last:
            return None
        self.left_out += left_out
        return None if event is None else _row(at, ordinal, event)


def applied(
    rows: Iterable[pa.Table], events: Sequence[pa.Table], fact: Fact, slot: str
) -> list[pa.Table]:
    """Return rows, as groups of one row each, after the events that tasks have found."""
    states, is_emptied = folded(_in_order(events))
    is_key = [each.name in fact.key for each in fact.dimensions]
    before: dict[Group, Group] = {}
    unmoved = [sums.groups_of({}, fact)]
    for table in () if is_emptied else rows:
        texts = [each.to_pylist() for each in sums.dimensions_of(table, fact, slot)]
        keys = zip(*(each for each, own in zip(texts, is_key, strict=True) if own), strict=True)
        places = {place: key for place, key in enumerate(keys) if key in states}
        before |= {key: tuple(each[place] for each in texts) for place, key in places.items()}
        mask = [place in places for place in range(table.num_rows)]
        unmoved.append(table.filter(compute.invert(pa.array(mask, pa.bool_()))))
    now: set[Group] = set()
    for state in states.values():
        if state is None:
            continue
        then = before.get(state.before) if state.before is not None else None
        if then is None and not all(is_there for is_there, _ in state.values):
            continue
        old = then or (None,) * len(state.values)
        now.add(
            tuple(
                new if is_there else kept
                for (is_there, new), kept in zip(state.values, old, strict=True)
            )
        )
    return [*unmoved, sums.groups_of({row: [1] for row in now}, fact)]


def _in_order(events: Sequence[pa.Table]) -> Iterator[Event]:
    if not events:
        return
    table = pa.concat_tables(events).sort_by(
        [("commit_lsn", "ascending"), ("ordinal", "ascending")]
    )
    for batch in table.to_batches():
        for row in batch.to_pylist():
            gone, texts, key = row["gone"], row["texts"], row["key"]
            came = None if texts is None else tuple(zip(row["there"], texts, strict=True))
            yield Event(gone and tuple(gone), came, key and tuple(key))


def _row(at: int, ordinal: int, event: Event) -> tuple[object, ...]:
    there, texts = zip(*event.came, strict=True) if event.came else (None, None)
    return at, ordinal, event.gone, there, texts, event.came_key
