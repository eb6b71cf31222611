"""Numbers of any size, without rounding. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import reduce

EXACT = Context(prec=150_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Rounds no number that a database has: 131,072 digits before the point and 16,383 after it."""


def total(texts: Iterable[str]) -> Decimal:
    """Return the exact sum of numbers given as texts."""
    return reduce(EXACT.add, map(Decimal, texts), Decimal(0))


def print_number(number: Decimal) -> str:
    """Return the one text of a number: no exponent, no zeros at its end."""
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text if number else "0"
