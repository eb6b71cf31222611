"""Which CHECK constraints keep NaN and the infinities out of a column. Pure.

A constraint is read as PostgreSQL prints it, and never executed: it may call anybody's functions.
Comparisons with a number, alone or joined by AND, are understood; anything else keeps nothing out.
"""

from __future__ import annotations

import operator
import re
from decimal import Decimal

from waltally.tables import quoted

SPECIAL = frozenset({"NaN", "Infinity", "-Infinity"})

_TERM = r"""\((?:[^()'"]|'[^']*'|"[^"]*"|\((?:[^()'"]|'[^']*')*\))*\)"""
_JOINED = re.compile(rf"\({_TERM}(?: AND {_TERM})+\)")
_NUMBER = r"\(*'?(-?\d+(?:\.\d+)?|NaN|-?Infinity)'?(?:\)|::[a-z ]+)*"
_COMPARISON = re.compile(rf"\((.+) (<|<=|>|>=|=|<>) {_NUMBER}\)")
_COMPARES = {
    **{"<": operator.lt, "<=": operator.le, "=": operator.eq},
    **{">": operator.gt, ">=": operator.ge, "<>": operator.ne},
}


def kept_out(expression: str, column: str) -> frozenset[str]:
    """Return which of SPECIAL the constraint allows in no row's column."""
    joined = re.findall(_TERM, expression[1:]) if _JOINED.fullmatch(expression) else []
    compared = [
        (_COMPARES[found[2]], found[3])
        for term in joined or [expression]
        if (found := _COMPARISON.fullmatch(term)) and found[1] in (column, quoted(column))
    ]
    return frozenset(
        each
        for each in SPECIAL
        if any(not compares(_rank(each), _rank(number)) for compares, number in compared)
    )


def _rank(number: str) -> tuple[bool, Decimal]:
    """Return what numbers are ordered by: PostgreSQL's NaN equals itself and is the largest."""
    return (True, Decimal()) if number == "NaN" else (False, Decimal(number))
