"""Numbers of any size, without rounding. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import reduce

Number = int | Decimal

LONGEST = 2001
"""Characters of a number that can be added up: the longest of numeric(p, s) has a sign."""

EXACT = Context(prec=40_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Rounds no number that a database has."""

_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")


def is_number(text: str) -> bool:
    """Return whether a text is a number that can be added up: cdc.takes('numeric', text)."""
    return len(text) <= LONGEST and _NUMBER.fullmatch(text) is not None


def parse(text: str) -> Number:
    """Return the number that a text of `is_number` says."""
    return int(text) if _WHOLE.fullmatch(text) else Decimal(text)


def add(one: Number, other: Number) -> Number:
    """Return the exact sum."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    return EXACT.add(Decimal(one), Decimal(other))


def multiply(one: Number, other: Number) -> Number:
    """Return the exact product."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    return EXACT.multiply(Decimal(one), Decimal(other))


def total(texts: Iterable[str]) -> Number:
    """Return the exact sum of numbers given as texts."""
    zero: Number = 0
    return reduce(add, map(parse, texts), zero)


def print_number(number: Number) -> str:
    """Return the one text of a number: no exponent, no zeros at its end."""
    if isinstance(number, int):
        return str(number)
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text if number else "0"


def plain_digits(text: str) -> str:
    """Return a number of JSON as the database's jsonb prints it: no exponent, no negative zero."""
    number = Decimal(text)
    digits = f"{number:f}"
    return digits if number else digits.removeprefix("-")
