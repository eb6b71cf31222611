"""A fact's values from the stream's texts, and why a text cannot be one. Pure.

Each function is compiled once from a declaration and returns a function of texts. None is null. The
dbt macros read_fact_value, find_bad_value, find_long_key and find_bad_sum are the same in SQL.

A value is read, judged and printed: a time is read as the day that it is in, which is refused where
there is none, and printed in the one text that its type has for it. So two values that are read
alike are alike to the fact.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TypeVar

from rules import documents, numbers, times
from rules.numbers import Number
from waltally.facts import Condition, Dimension, Fact, Measure, digits_of

Text = str | None
Read = Callable[[Text], Text]
Reason = Text
"""Why a value cannot be counted; None where it can."""

LONGEST = 1000
"""Bytes of a text in a key."""

LONGEST_KEY = 1800
"""Bytes of all texts in a key: an entry of the fact's index has 2,704 bytes for all dimensions."""

UNREADABLE = "\0"
"""What a text is read as that is no time, number or document; no text of the database has it."""

EXAMPLE_LENGTH = 100
"""Characters that are shown of a value that cannot be counted."""

_REMEMBERED = 50_000
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_TIMES = ("date", "timestamp", "timestamptz")
_LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}

Function = TypeVar("Function", bound=Callable[..., object])


def remembered(function: Function) -> Function:
    """Return the function with a memory of its last results: most texts come again."""
    return lru_cache(_REMEMBERED)(function)  # type: ignore[return-value]


def read(dimension: Dimension) -> Read:
    """Return the function that reads a column's text for a dimension: what makes two rows alike.

    It returns UNREADABLE for a text that a period, a bucket or a path cannot be taken of.
    """
    if dimension.kind == "period":
        return remembered(_of_text(_read_period(dimension)))
    if dimension.kind == "bucket":
        return remembered(_of_text(_read_bucket(dimension.bounds)))
    if dimension.kind == "path":
        return remembered(_of_text(_read_path(dimension.path)))
    return lambda text: text


def refuse(dimension: Dimension, *, is_key: bool = True) -> Callable[[Text], Reason]:
    """Return the function that says why a value of `read` cannot be counted.

    A text outside the key, as in current rows, may be of any length.
    """
    takes, reason = _type_rule(dimension.value_type, is_key)
    refused = f"the value of {dimension.column} {reason}"
    unreadable = refused
    if dimension.kind == "bucket":
        unreadable = f"the value of {dimension.column} is not a number"
    elif dimension.kind == "path":
        unreadable = f"the value of {dimension.column} is not JSON with readable texts"
    is_computed = dimension.kind in ("period", "bucket")

    def find(value: Text) -> Reason:
        if value is None:
            return None
        if value == UNREADABLE and dimension.kind != "column":
            return unreadable
        return None if is_computed or takes(value) else refused

    return find


def label(dimension: Dimension) -> Read:
    """Return the function that says what the fact calls a value of `read`."""
    labels, other = dimension.labels, dimension.other_label
    if other is not None:
        return lambda value: None if value is None else labels.get(value, other)
    return lambda value: None if value is None else labels.get(value, value)


def print_value(dimension: Dimension) -> Read:
    """Return the function that prints a value of `read` as the fact's column does."""
    if dimension.labels:
        return label(dimension)
    if dimension.kind in ("period", "path"):
        return lambda value: value
    return remembered(_of_text(canonical(dimension.type)))


def refuse_key(fact: Fact) -> Callable[[Mapping[str, Text]], Reason]:
    """Return the function that says why the values of a key cannot be counted together.

    The values are labels by the dimension's name.
    """
    texts = [each for each in fact.key_dimensions if each.type == "text" and each.column]
    names = [each.name for each in texts]
    columns = ", ".join(str(each.column) for each in texts)
    refused = f"the values of {columns} together are longer than {LONGEST_KEY} bytes"

    def find(values: Mapping[str, Text]) -> Reason:
        size = sum(len((values[name] or "").encode()) for name in names)
        return refused if size > LONGEST_KEY else None

    return find if len(texts) > 1 else lambda values: None


def holds(conditions: Sequence[Condition]) -> Callable[[Text], bool | None]:
    """Return the function that says whether all conditions on a column are true of its text.

    None where they cannot be compared with it. Null is not true, as in SQL's WHERE, but where the
    list of an `in` has it.
    """
    tests = [_test(each) for each in conditions]

    def find(text: Text) -> bool | None:
        met: bool | None = True
        for test in tests:
            found = test(text)
            if found is False:
                return False
            met = met if found else found
        return met

    return remembered(find)


def refuse_bound(conditions: Sequence[Condition]) -> Reason:
    """Return why a text cannot be compared with the bounds of conditions; None without bounds."""
    for each in conditions:
        if each.has_bound:
            what = "number" if each.is_of_numbers else "date or a time"
            return f"the value of {each.column} is not a {what}"
    return None


def refuse_factors(measure: Measure) -> Callable[[Sequence[Text]], Reason]:
    """Return the function that says why the texts of a sum's columns cannot be added to it.

    A value with more decimals than the measure keeps would be rounded batch by batch; one that its
    type cannot hold would stop the fact.
    """
    refused = [f"the value of {column} is not a number" for column in measure.columns]
    check = refuse_sum(measure)

    def find(texts: Sequence[Text]) -> Reason:
        for text, reason in zip(texts, refused, strict=True):
            if text is not None and not numbers.is_number(text):
                return reason
        if None in texts:
            return None
        return check(amount(texts))

    return find


def amount(texts: Sequence[Text]) -> Number:
    """Return the product of texts that are numbers; null makes it nothing."""
    found: Number = 1
    for text in texts:
        if text is None:
            return 0
        found = numbers.multiply(found, numbers.parse(text))
    return found


def refuse_sum(measure: Measure) -> Callable[[Number], Reason]:
    """Return the function that says why a number cannot be added to a measure."""
    what = "product" if len(measure.columns) > 1 else "value"
    says = f"the {what} of {' and '.join(measure.columns)} "
    limits = limits_of(measure)
    if limits is None:
        return lambda number: None
    decimals, least, most = limits

    def find(number: Number) -> Reason:
        if isinstance(number, Decimal) and number and _decimals(number) > decimals:
            return f"{says}has more than {decimals} decimals"
        return None if least <= number <= most else f"{says}does not fit {measure.type}"

    return find


def limits_of(measure: Measure) -> tuple[int, Decimal, Decimal] | None:
    """Return how many decimals the measure keeps, and the smallest and largest number it holds.

    None for the type numeric, which takes every number as it is.
    """
    if measure.type == "bigint":
        return 0, Decimal(-_LARGEST["bigint"] - 1), Decimal(_LARGEST["bigint"])
    if (digits := digits_of(measure.type)) is None:
        return None
    most = Decimal((0, (9,) * digits[0], -digits[1]))
    return digits[1], most.copy_negate(), most


def takes(type_: str) -> Callable[[str], bool]:
    """Return whether a type takes a text as it is printed: cdc.takes, and uuid."""
    if type_ == "uuid":
        return lambda text: _UUID.fullmatch(text) is not None
    if type_ == "text":
        return lambda text: True
    if type_ in _TIMES:
        return lambda text: times.is_time(text, type_)
    if type_ == "boolean":
        return lambda text: text in ("true", "false")
    if most := _LARGEST.get(type_):
        least = -most - 1
        return lambda text: _WHOLE.fullmatch(text) is not None and least <= int(text) <= most
    if (digits := digits_of(type_)) is None:
        return numbers.is_number
    precision, scale = digits
    limit = 10 ** (precision - scale)

    def fits(text: str) -> bool:
        if len(text) > numbers.LONGEST or _DECIMAL.fullmatch(text) is None:
            return False
        number = Decimal(text)
        return _decimals(number) <= scale and abs(number) < limit

    return fits


def canonical(type_: str) -> Callable[[str], str]:
    """Return the one text of a value that its type can print in several ways."""
    if type_ == "uuid":
        return str.lower
    if type_ in ("timestamp", "timestamptz"):
        return times.canonical
    if (digits := digits_of(type_)) is None:
        return lambda text: text
    scale = digits[1]

    def padded(text: str) -> str:
        printed = f"{Decimal(text):.{scale}f}"
        return printed if printed.strip("-0.") else printed.removeprefix("-")

    return padded


def example(value: Text) -> Text:
    """Return what is shown of a value that cannot be counted: how it begins."""
    return None if value is None else value[:EXAMPLE_LENGTH].replace(UNREADABLE, "")


def _of_text(function: Callable[[str], Text]) -> Read:
    return lambda text: None if text is None else function(text)


def _read_period(dimension: Dimension) -> Callable[[str], Text]:
    period = times.period(
        str(dimension.unit),
        dimension.timezone or "UTC",
        dimension.column_timezone or "UTC",
        dimension.is_instant,
    )

    def find(text: str) -> Text:
        found = period(text)
        return UNREADABLE if found is None else found

    return find


def _read_bucket(bounds: Sequence[str]) -> Callable[[str], Text]:
    ascending = [numbers.parse(bound) for bound in bounds]

    def find(text: str) -> Text:
        if not numbers.is_number(text):
            return UNREADABLE
        place = bisect_right(ascending, numbers.parse(text))
        return bounds[place - 1] if place else None

    return find


def _read_path(path: Sequence[str]) -> Callable[[str], Text]:
    def find(text: str) -> Text:
        try:
            return documents.text_at(text, path)
        except (ValueError, RecursionError):
            return UNREADABLE

    return find


def _type_rule(type_: str, is_key: bool) -> tuple[Callable[[str], bool], str]:
    """Return whether a type takes a text, and what is wrong with one that it does not take."""
    if type_ == "text":
        says = f"is longer than {LONGEST} bytes"
        # A text of so many characters needs no counting of its bytes.
        return lambda text: not is_key or len(text) * 4 <= LONGEST or _fits(text), says
    if type_ == "uuid":
        return takes(type_), "is not a uuid"
    if type_ in _TIMES:
        return takes(type_), f"is not a {type_} of the years 1 to 9999"
    return takes(type_), f"is not of type {type_}"


def _fits(text: str) -> bool:
    return len(text.encode()) <= LONGEST


def _test(condition: Condition) -> Callable[[Text], bool | None]:
    if condition.test == "is_null":
        return lambda text: (text is None) == condition.is_null
    if not condition.has_bound:
        values = frozenset(condition.values)
        if condition.test == "in":
            return lambda text: text in values
        return lambda text: text is not None and text not in values
    bound = condition.bound
    wants_above = condition.test == "at_least"
    if condition.is_of_numbers:
        limit = numbers.parse(bound)

        def is_met(text: Text) -> bool | None:
            if text is None:
                return False
            if not numbers.is_number(text):
                return None
            return (numbers.parse(text) >= limit) == wants_above

        return is_met

    def is_timely(text: Text) -> bool | None:
        if text is None:
            return False
        at = times.order(text)
        return None if at is None else (at >= bound) == wants_above

    return is_timely


def _decimals(number: Decimal) -> int:
    """Return how many decimals a number has: 1.50 has one, 1.5e1 none."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    zeros = next((place for place, digit in enumerate(reversed(digits)) if digit), None)
    return 0 if zeros is None else -exponent - zeros
