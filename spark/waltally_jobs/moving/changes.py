"""The one form for changes on the move: needed values of old and new image, with a count. Pure.

Executors make it from rows of the log, for one model or several at once; the
database has it as the type `change`, and its routine of the model evaluates it. Changes that look
alike are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from waltally.models import Model
from waltally.tables import Table
from waltally_jobs.common import arrow, messages
from waltally_jobs.common.messages import Image, Position, text_of

MOVED = (
    "model int, source_no int, action string, commit_lsn bigint, is_cancelled boolean,"
    " problem string, old_values array<string>, new_values array<string>, change_count bigint,"
    " last_lsn bigint, missing array<int>"
)
"""Changes as a task has them; `model` is the model's ordinal among those that are moved for.

A source's number and the ordinals of missing values count from 1, as in SQL.
"""

SCHEMA = arrow.schema(MOVED)
"""The same for Arrow."""
_HELD = 200_000
"""Changes that do not look alike and are held at a time."""
_ROWS = 20_000
"""Of a batch."""

Key = tuple[int | None, str, int | None, bool, str | None, Image | None, Image | None]
"""Table, action, position where deletes are told apart, whether a TRUNCATE comes later, problem,
and the images."""


@dataclass(frozen=True)
class _Need:
    """What a model needs of a table: the values at these ordinals of what is read of the table."""

    model: int
    source_no: int
    ordinals: tuple[int, ...]
    keeps_deleted: bool


class Collapsing:
    """Makes changes of one form of messages, for several models."""

    def __init__(
        self, models: Sequence[tuple[int, Model]], truncates: Mapping[Table, Position] | None = None
    ) -> None:
        """Read for these models, each with its number; `truncates` is where tables were emptied."""
        tables: dict[Table, dict[str, int]] = {}
        for _, model in models:
            for part in model.tables:
                names = tables.setdefault(part.table, {})
                for name in model.needed_columns(part):
                    names.setdefault(name, len(names))
        self._models = [number for number, _ in models]
        self._read = messages.reader([(table, list(names)) for table, names in tables.items()])
        self._needs = [
            [
                _Need(
                    number,
                    ordinal,
                    tuple(names[name] for name in model.needed_columns(part)),
                    part.ignores_deletes,
                )
                for number, model in models
                for ordinal, part in enumerate(model.tables, 1)
                if part.table == table
            ]
            for table, names in tables.items()
        ]
        self._told_apart = {
            number
            for number, needs in enumerate(self._needs)
            if any(need.keeps_deleted for need in needs)
        }
        emptied = truncates or {}
        self._emptied = {
            number: emptied[table] for number, table in enumerate(tables) if table in emptied
        }
        self._alike: dict[Key, list[int]] = {}

    def batches(
        self, rows: Iterable[tuple[int, int, str | None, bytes]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes of rows of the log (position, ordinal, action, payload): of SCHEMA."""
        read, alike, emptied, told_apart = self._read, self._alike, self._emptied, self._told_apart
        for lsn, ordinal, letter, payload in rows:
            change = read(letter, payload)
            if change is None:
                continue
            number, action, problem, old, new = change
            if problem is not None:
                new = None
            if old == new and old is not None and None not in old:
                continue
            is_cancelled = number in emptied and (lsn, ordinal) < emptied[number]
            at = lsn if action == "D" and number in told_apart else None
            same = alike.get(key := (number, action, at, is_cancelled, problem, old, new))
            if same is None:
                alike[key] = [1, lsn]
            else:
                same[0] += 1
                if lsn > same[1]:
                    same[1] = lsn
            if len(alike) >= _HELD:
                yield from self._finish()
        yield from self._finish()

    def _finish(self) -> Iterator[pa.RecordBatch]:
        found = list(self._rows())
        self._alike.clear()
        for begin in range(0, len(found), _ROWS):
            yield arrow.batch_of(SCHEMA, found[begin : begin + _ROWS])

    def _rows(self) -> Iterator[tuple[object, ...]]:
        again: dict[tuple[object, ...], list[int]] = {}
        for (number, action, at, is_cancelled, problem, old, new), many in self._alike.items():
            if number is None:
                for model in self._models:
                    yield model, None, action, None, False, problem, None, None, *many, None
                continue
            texts = _texts(old), _texts(new)
            for need in self._needs[number]:
                missing = _missing(need, old, new)
                before, after = (_taken(need, each) for each in texts)
                is_whole = problem is None and missing is None
                # A TRUNCATE takes it away, or it moves none of the model's values.
                if is_whole and (is_cancelled or (before == after and action == "U")):
                    continue
                own = at if need.keeps_deleted else None
                said = (need.model, need.source_no, action, own, is_cancelled, problem)
                cells = (*said, before, after, missing)
                if len(self._needs[number]) == 1:
                    yield *cells[:8], *many, missing
                elif (same := again.get(cells)) is None:
                    again[cells] = [*many]
                else:
                    same[0], same[1] = same[0] + many[0], max(same[1], many[1])
        for alike, many in again.items():
            yield *alike[:8], *many, alike[8]


def _texts(image: Image | None) -> list[str | None] | None:
    if image is None:
        return None
    return [None if each is None else text_of(each) for each in image]


def _taken(need: _Need, values: Sequence[str | None] | None) -> tuple[str | None, ...] | None:
    return None if values is None else tuple(values[ordinal] for ordinal in need.ordinals)


def _missing(need: _Need, old: Image | None, new: Image | None) -> tuple[int, ...] | None:
    """Return the ordinals of values that an image of the change lacks."""
    if None not in (old or ()) and None not in (new or ()):
        return None
    return (
        tuple(
            number
            for number, ordinal in enumerate(need.ordinals, 1)
            if (old is not None and old[ordinal] is None)
            or (new is not None and new[ordinal] is None)
        )
        or None
    )
