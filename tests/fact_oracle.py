"""The delta rules for any declaration in plain Python: what the tests hold the models against.

Written from the declaration's description alone. It judges wal2json changes one by one in their
order. `testkit/recount.py` is the other judge: it counts the source's rows.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from math import prod
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from waltally.facts import Condition, Dimension, Fact, FactTable, Measure

Change = Mapping[str, Any] | str
"""One wal2json change; text is something that is no change."""

Transaction = list[Change]
Group = tuple[str | None, ...]
"""The texts of the dimensions."""

ABSENT = object()
"""The value of a column that an image lacks."""
BAD = object()
"""A value that is no moment."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?(\+00)?)?")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d{1,3})?")
_UUID = re.compile(r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}")
_INTEGER = re.compile(r"0|-?[1-9]\d*")


class Rejected(Exception):
    """A change of which something cannot be counted."""


class BadImage(Rejected):
    """An image with a value that cannot be counted: as the old one it had added nothing."""


@dataclass
class Totals:
    """What each table of a fact has added, and the changes that cannot be counted."""

    fact: Fact
    slot: str
    parts: dict[str, dict[Group, list[Decimal]]] = field(default_factory=dict)
    rejected: list[tuple[int, int]] = field(default_factory=list)
    """Number of the transaction from 0, number of the change in it from 1."""
    purged: dict[str, dict[Group, list[Decimal]]] = field(default_factory=dict)
    """What was deleted from each table whose deletes are ignored, and stays counted."""

    def groups(self) -> dict[Group, list[Decimal]]:
        """Return the measures of each group; groups of nothing left out."""
        found: dict[Group, list[Decimal]] = defaultdict(self._nothing)
        for groups in self.parts.values():
            for group, measures in groups.items():
                found[group] = [a + b for a, b in zip(found[group], measures, strict=True)]
        return {group: measures for group, measures in found.items() if any(measures)}

    def read(self, history: Iterable[Iterable[Change]], first: int = 0) -> None:
        """Count whole transactions, the first of them with this number."""
        for number, transaction in enumerate(history, first):
            for ordinal, change in enumerate(transaction, 1):
                try:
                    self._add(change)
                except Rejected:
                    self.rejected.append((number, ordinal))

    def _nothing(self) -> list[Decimal]:
        return [Decimal()] * len(self.fact.measures)

    def _add(self, change: Change) -> None:
        if isinstance(change, str):
            raise Rejected
        table = change["schema"], change["table"]
        part = next(
            (each for each in self.fact.tables if (each.table.schema, each.table.name) == table),
            None,
        )
        if part is None:
            return
        groups = self.parts.setdefault(part.name, defaultdict(self._nothing))
        purged = self.purged.setdefault(part.name, defaultdict(self._nothing))
        action = change["action"]
        if action == "T":
            groups.clear()
            purged.clear()
            return
        if action in "UD" and "identity" not in change:
            raise Rejected
        old = self._row(part, change.get("identity", ()))
        new = self._row(part, change.get("columns", ()))
        if action == "U":
            new = {name: old[name] if new[name] is ABSENT else new[name] for name in new}
            before, after = self._values(part, old), self._values(part, new)
            if before == after and ABSENT not in before:
                return
        images = [(new, 1)] if action in "IU" else []
        images += [(old, -1)] if action in "UD" else []
        judged: list[tuple[Group | None, dict[str, Any], int]] = []
        bad = False
        for row, sign in images:
            try:
                judged.append((self._group(part, row), row, sign))
            except BadImage:
                bad |= sign > 0
        for group, row, sign in judged:
            if group is None:
                continue
            is_purge = action == "D" and part.deletes == "ignore"
            place, sign = (purged, 1) if is_purge else (groups, sign)
            added = self._measures(part, row)
            place[group] = [a + sign * b for a, b in zip(place[group], added, strict=True)]
        if bad:
            raise Rejected

    def _row(self, part: FactTable, columns: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the values by the names of the declaration."""
        image = {each["name"]: each["value"] for each in columns}
        names = self.fact.used_columns(part)
        return {name: _text(image.get(part.column(name), ABSENT)) for name in names}

    def _values(self, part: FactTable, row: Mapping[str, Any]) -> list[Any]:
        """Return what the row is for the fact."""
        dimensions = [_value(each, row) for each in self.fact.dimensions]
        sums = [row[name] for name in self.fact.summed_columns(part)]
        own = [each.where for each in self.fact.measures if part.name in each.of]
        met = (value for each in (self.fact.where, *own) for value in _hold(each, row))
        return [*dimensions, *sums, *met]

    def _group(self, part: FactTable, row: Mapping[str, Any]) -> Group | None:
        """Return the group of a row, None where it does not count. Raises Rejected."""
        if any(_holds(each, row) is False for each in self.fact.where):
            return None
        values = [_value(each, row) for each in self.fact.dimensions]
        for dimension, value in zip(self.fact.dimensions, values, strict=True):
            if value is None and dimension.nulls == "leave_out" and dimension.kind != "slot":
                return None
        if ABSENT in self._values(part, row):
            raise Rejected
        for dimension, value in zip(self.fact.dimensions, values, strict=True):
            if value is not None and not _is_good(dimension, value):
                raise BadImage
        pairs = zip(self.fact.dimensions, values, strict=True)
        texts = [
            _canonical(each, value)
            for each, value in pairs
            if each.type == "text" and each.column and value
        ]
        if sum(len(text.encode()) for text in texts) > 1800 and len(texts) > 1:
            raise BadImage
        own = [each.where for each in self.fact.measures if part.name in each.of]
        if any(None in _hold(where, row) for where in (self.fact.where, *own)):
            raise BadImage
        for measure in self.fact.measures:
            if part.name in measure.of and all(_hold(measure.where, row)):
                for column in measure.columns:
                    _check_sum("numeric", row[column])
                if measure.columns:
                    _check_sum(measure.type, _product(measure, row))
        return tuple(
            self.slot if dimension.kind == "slot" else _canonical(dimension, value)
            for dimension, value in zip(self.fact.dimensions, values, strict=True)
        )

    def _measures(self, part: FactTable, row: Mapping[str, Any]) -> list[Decimal]:
        return [
            Decimal()
            if part.name not in measure.of or not all(_hold(measure.where, row))
            else Decimal(1)
            if not measure.columns
            else Decimal(_product(measure, row) or 0)
            for measure in self.fact.measures
        ]


def _text(value: Any) -> Any:
    if value is ABSENT or value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(dimension: Dimension, row: Mapping[str, Any]) -> Any:
    """Return the dimension of a row: a day in place of a moment."""
    if dimension.kind == "slot":
        return None
    value = row[str(dimension.column)]
    if value is ABSENT or value is None or dimension.kind == "column":
        return value
    if dimension.kind == "bucket":
        if not _NUMBER.fullmatch(value):
            return BAD
        below = [each for each in dimension.bounds if Decimal(each) <= Decimal(value)]
        return below[-1] if below else None
    if dimension.kind == "path":
        return _at_path(value, dimension.path)
    return _period(dimension, value)


def _at_path(value: str, path: Iterable[str]) -> Any:
    try:
        found = json.loads(value, parse_float=str, parse_int=str)
        for name in path:
            found = found[int(name)] if isinstance(found, list) else found[name]
    except json.JSONDecodeError:
        return BAD
    except (LookupError, TypeError):
        return None
    return found


def _period(dimension: Dimension, value: str) -> Any:
    if not _MOMENT.fullmatch(value):
        return BAD
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return BAD
    if len(value) > 10:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(dimension.column_timezone or "UTC"))
        moment = moment.astimezone(UTC).astimezone(ZoneInfo(str(dimension.timezone)))
    local = moment
    if dimension.is_instant:
        if len(value) == 10:
            return BAD
        if dimension.unit != "hour":
            midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
            since = (local.astimezone(UTC) - midnight.astimezone(UTC)) // timedelta(seconds=1)
            begins = since - since % int(str(dimension.unit).split()[0])
            found = midnight.astimezone(UTC) + timedelta(seconds=begins)
            return found.strftime("%Y-%m-%d %H:%M:%S+00")
        past = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        return (local.astimezone(UTC) - past).strftime("%Y-%m-%d %H:%M:%S+00")
    day = local.date()
    if dimension.unit == "week":
        day -= timedelta(days=day.weekday())
    firsts = {"month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}
    if first := firsts.get(str(dimension.unit)):
        day = day.replace(month=first, day=1)
    return day.isoformat()


def _product(measure: Measure, row: Mapping[str, Any]) -> str | None:
    factors = [row[column] for column in measure.columns]
    if None in factors:
        return None
    with localcontext(prec=5000):
        return str(prod(map(Decimal, factors)))


def _hold(where: Iterable[Condition], row: Mapping[str, Any]) -> list[Any]:
    """Return by column whether the conditions on it hold; None where a value cannot be compared."""
    found: dict[str, Any] = {}
    for each in where:
        holds, before = _holds(each, row), found.get(each.column, True)
        found[each.column] = (
            False if False in (holds, before) else None if None in (holds, before) else holds
        )
    return list(found.values())


def _holds(condition: Condition, row: Mapping[str, Any]) -> Any:
    value = row[condition.column]
    if value is ABSENT:
        return ABSENT
    if condition.has_bound and value is not None:
        bound = condition.bound
        try:
            if condition.is_of_numbers:
                is_above = bool(_NUMBER.fullmatch(value)) and Decimal(value) >= Decimal(bound)
                is_known = _NUMBER.fullmatch(value) is not None
            else:
                is_above = _moment(value) >= _moment(bound)
                is_known = _MOMENT.fullmatch(value) is not None
        except ValueError:
            return None
        return is_above == (condition.test == "at_least") if is_known else None
    if condition.test == "is_null":
        return (value is None) == condition.is_null
    if value is None and condition.test != "in":
        return False
    return (value in condition.values) == (condition.test == "in")


def _moment(value: str) -> datetime:
    return datetime.fromisoformat(value).replace(tzinfo=None)


def _canonical(dimension: Dimension, value: Any) -> Any:
    if dimension.type == "uuid" and value is not None:
        return str(UUID(value))
    if value is not None and dimension.other_label is not None:
        return dimension.labels.get(value, dimension.other_label)
    return dimension.labels.get(value, value)


def _is_good(dimension: Dimension, value: Any) -> bool:
    if value is BAD:
        return False
    if dimension.kind in ("column", "path") and dimension.value_type == "text":
        return len(value.encode()) <= 1000
    if dimension.kind == "column" and dimension.value_type == "integer":
        return _INTEGER.fullmatch(value) is not None and -(2**31) <= int(value) < 2**31
    return dimension.type != "uuid" or _UUID.fullmatch(value) is not None


def _check_sum(type_: str, value: str | None) -> None:
    if value is None:
        return
    if not _NUMBER.fullmatch(value) or len(value) > 2001:
        raise BadImage
    digits = re.findall(r"\d+", type_)
    decimals = 0 if type_ == "bigint" else int(digits[1]) if digits else None
    with localcontext(prec=5000):
        exponent = Decimal(value).normalize().as_tuple().exponent
    if decimals is not None and -int(exponent) > decimals:
        raise BadImage
