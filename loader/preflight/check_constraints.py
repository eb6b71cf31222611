"""Which CHECK constraints keep NaN and the infinities out of a column. Pure.

A constraint is read as PostgreSQL prints it, and never executed: it may call anybody's functions.
What is not understood keeps nothing out.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import reduce
from typing import Any

from waltally.tables import quoted

SPECIAL = frozenset({"NaN", "Infinity", "-Infinity"})

_TOKEN = re.compile(
    r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|::|double precision|[\w.$]+|[<>=~!@#%^&|`?*/+-]+|\S)"""
)
_TYPES = ("numeric", "real", "double precision", "smallint", "integer", "bigint")
_NUMBER = re.compile(r"\d+(\.\d+)?|'(-?\d+(\.\d+)?|NaN|-?Infinity)'")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    **{"<": operator.lt, "<=": operator.le, "=": operator.eq},
    **{">": operator.gt, ">=": operator.ge, "<>": operator.ne},
}

_Node = list[Any]
"""The tokens of an expression; what is in brackets is a node of its own."""


def kept_out(expression: str, column: str) -> frozenset[str]:
    """Return which of SPECIAL the constraint allows in no row's column."""
    return _kept_out(_nested(iter(_TOKEN.findall(expression))), (column, quoted(column)))


def _nested(tokens: Iterator[str]) -> _Node:
    node: _Node = []
    for token in tokens:
        if token in (")", "]"):
            break
        node.append(_nested(tokens) if token in ("(", "[") else token)
    return node


def _kept_out(node: _Node, names: tuple[str, str]) -> frozenset[str]:
    for word, combine in (("OR", frozenset.intersection), ("AND", frozenset.union)):
        if word in node:
            return reduce(combine, (_kept_out(each, names) for each in _split(node, word)))
    match node:
        case [[*inner]]:
            return _kept_out(inner, names)
        case [name, "IS", "NULL"] if name in names:
            return SPECIAL
        case [name, comparison, "ANY" | "ALL" as how, ["ARRAY", listed]] if name in names:
            found = [_failing(comparison, each) for each in _split(listed, ",")]
            return reduce(frozenset.union if how == "ALL" else frozenset.intersection, found)
        case [name, comparison, *constant] if name in names:
            return _failing(comparison, constant)
    return frozenset()


def _failing(comparison: Any, constant: _Node) -> frozenset[str]:
    """Return which of SPECIAL do not compare so with the constant."""
    right = _value(constant)
    if right is None or comparison not in _COMPARISONS:
        return frozenset()
    compares = _COMPARISONS[comparison]
    return frozenset(each for each in SPECIAL if not compares(_rank(each), right))


def _value(constant: _Node) -> tuple[bool, Decimal] | None:
    match constant:
        case [[*inner]]:
            return _value(inner)
        case [value, "::", type_] if type_ in _TYPES:
            return _value([value])
        case [str(token)] if _NUMBER.fullmatch(token):
            return _rank(token.strip("'"))
    return None


def _rank(number: str) -> tuple[bool, Decimal]:
    """Return what numbers are ordered by: PostgreSQL's NaN equals itself and is the largest."""
    return (True, Decimal()) if number == "NaN" else (False, Decimal(number))


def _split(node: _Node, word: str) -> list[_Node]:
    if word not in node:
        return [node]
    place = node.index(word)
    return [node[:place], *_split(node[place + 1 :], word)]
