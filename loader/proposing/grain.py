"""A time that a bound compares is kept by its grain: exact where each bound begins one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.reading import CLOCKS, is_read
from waltally.errors import LoaderError

if TYPE_CHECKING:
    from loader.proposing.keep import Keep

GRAINS = ("day", "hour", "minute", "second")
_MOMENTS = "generate_series('2024-02-29 23:59:59.5+00'::timestamptz, '2026-03-01', '57:42.123457')"
"""In each hour of two years. Where clocks change, a day has not 24 hours, or two midnights."""
_OFFSET = re.compile(r"([+-]\d\d(:?\d\d)?|Z)'$")
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def compared(keep: Keep, node: pb.Node) -> tuple[pb.Node, str, pb.Node] | None:
    """Return a kept time, the operator and what it is compared with when somebody reads."""
    if not node.HasField("a_expr") or node.a_expr.kind != pb.AEXPR_OP:
        return None
    operator = node.a_expr.name[-1].string.sval
    if operator not in _TURNED:
        return None
    sides = (node.a_expr.lexpr, operator, node.a_expr.rexpr)
    turned = (node.a_expr.rexpr, _TURNED[operator], node.a_expr.lexpr)
    for value, sign, bound in (sides, turned):
        if keep.is_own(value) and is_read(keep.book, bound) and not keep.scope.refs(bound):
            try:
                is_time = keep.type_of(tree.sql(value)).startswith("timestamp")
            except LoaderError:
                return None
            return (value, sign, bound) if is_time else None
    return None


def by_grain(keep: Keep, value: pb.Node, operator: str, bound: pb.Node) -> pb.Node:
    """Return the comparison of the model's grain with the bound."""
    text = tree.sql(value)
    grain = _grain(keep, text)
    if not grain or text in keep.grains:
        return tree.compare(keep.key(value), operator, bound)
    zone = ", 'UTC'" if _needs_no_zone(keep, text) else ""
    begin = f"date_trunc('{grain}', {text}{zone})"
    keep.hints.setdefault(tree.sql(tree.expression(begin)), grain)
    keep.grains[begin] = grain
    start = keep.key(tree.expression(begin))
    if operator in (">=", "<"):
        return tree.compare(start, operator, bound)
    # The bound itself is a moment of its grain's rows, and not the others.
    is_start = tree.expression(f"{text} = {begin}")
    keep.hints.setdefault(tree.sql(is_start), f"is_start_of_{grain}")
    flag = tree.sql(keep.key(is_start))
    limit, at = tree.sql(bound), tree.sql(start)
    if operator == ">":
        return tree.expression(f"({at} > {limit} or ({at} = {limit} and not {flag}))")
    return tree.expression(f"({at} < {limit} or ({at} = {limit} and {flag}))")


def _grain(keep: Keep, text: str) -> str:
    """Return the largest grain at whose beginnings all bounds of a time are; empty for none."""
    book = keep.book
    type_ = keep.type_of(text)
    bounds = [
        book.plain(tree.sql(_at_moment(tree.expression(bound))))
        for bound in keep.bounds.get(text, [])
    ]
    # An hour begins at the same moments everywhere, but for a few zones' halves of hours.
    largest = _needs_no_zone(keep, text)
    for grain in (book.grain,) if book.grain else GRAINS[largest:]:
        begins = [f"date_trunc('{grain}', ({b})::{type_}) = ({b})::{type_}" for b in bounds]
        begins.append(f"date_trunc('{grain}', moment::{type_}) <= moment::{type_}")
        all_begin = f"bool_and({' and '.join(begins)}) from {_MOMENTS} as moment"
        if bounds and book.catalog.is_true(all_begin):
            note = f"{text} is kept by the {grain}, since its bounds begin one"
            if note not in book.notes and text not in keep.grains:
                book.notes.append(note)
            if any("$" in bound for bound in keep.bounds[text]):
                book.ranges[text] = grain
            return grain
    return ""


def _needs_no_zone(keep: Keep, text: str) -> bool:
    """Return whether all bounds of a time are moments that the application says, with an offset.

    Then nobody has to say a zone where the query has no other use for it.
    """
    book = keep.book
    if book.catalog.zone or book.grain == "day" or keep.type_of(text) != "timestamp with time zone":
        return False
    for bound in keep.bounds.get(text, []):
        node = tree.expression(bound)
        while node.HasField("type_cast"):
            node = node.type_cast.arg
        if not node.HasField("param_ref"):
            return False
        given = book.parameters[node.param_ref.number]
        if not given.written and not _OFFSET.search(given.value or ""):
            return False
    return True


def _at_moment(bound: pb.Node) -> pb.Node:
    """Return a bound as it is at a moment: one that now begins a day may not do so in an hour."""
    types = {
        pb.SVFOP_CURRENT_DATE: "date",
        pb.SVFOP_CURRENT_TIMESTAMP: "timestamptz",
        pb.SVFOP_LOCALTIMESTAMP: "timestamp",
    }

    def one(node: pb.Node) -> pb.Node | None:
        kind = node.WhichOneof("node")
        if kind == "func_call" and tree.called(node.func_call) in CLOCKS:
            return None if node.func_call.args else tree.expression("moment")
        type_ = types.get(node.sqlvalue_function.op) if kind == "sqlvalue_function" else None
        return tree.expression(f"moment::{type_}") if type_ else None

    return tree.changed(bound, one)
