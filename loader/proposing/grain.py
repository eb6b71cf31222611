"""A time that a bound compares is kept by its grain: exact where each bound begins one."""

from __future__ import annotations

import re

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.kept import Kept
from loader.proposing.scope import CLOCKS, is_read

GRAINS = ("day", "hour", "minute", "second")
_MOMENTS = "generate_series('2024-02-29 23:59:59.5+00'::timestamptz, '2026-03-01', '57:42.123457')"
"""In each hour of two years. Where clocks change, a day has not 24 hours, or two midnights."""
_AGES = "generate_series('1850-01-01 23:59:59.5+00'::timestamptz, '2060-01-01', '23:57:42.123457')"
"""Each day since before zones had whole hours."""
_OFFSET = re.compile(r"([+-]\d\d(:?\d\d)?|Z)'$")
_IDENTICAL = (
    "boolean", "smallint", "integer", "bigint", "uuid", "date", "timestamp without time zone",
    "timestamp with time zone",
)  # fmt: skip
"""Types of which equal values are identical."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def compared(keep: Kept, node: pb.Node) -> tuple[pb.Node, str, pb.Node] | None:
    """Return a kept time, the operator and what it is compared with when somebody reads."""
    if not node.HasField("a_expr") or node.a_expr.kind != pb.AEXPR_OP:
        return None
    operator = node.a_expr.name[-1].string.sval
    if operator not in _TURNED:
        return None
    sides = (node.a_expr.lexpr, operator, node.a_expr.rexpr)
    turned = (node.a_expr.rexpr, _TURNED[operator], node.a_expr.lexpr)
    for value, sign, bound in (sides, turned):
        if keep.is_own(value) and is_read(keep.plan, bound) and not keep.scope.refs(bound):
            is_time = keep.type_of(tree.sql(value)).startswith("timestamp")
            return (value, sign, bound) if is_time else None
    return None


def bounds(keep: Kept) -> dict[str, list[pb.Node]]:
    """Return by time what the query compares it with when somebody reads."""
    found: dict[str, list[pb.Node]] = {}
    for one in tree.own(keep.select, pb.Node):
        for node in tree.conjuncts(one):
            if bound := compared(keep, node):
                found.setdefault(tree.sql(bound[0]), []).append(bound[2])
    return found


def by_grain(keep: Kept, value: pb.Node, operator: str, bound: pb.Node) -> pb.Node:
    """Return the comparison of the model's grain with the bound."""
    text = tree.sql(value)
    grain = _grain(keep, text)
    if not grain or text in keep.grains:
        return tree.compare(keep.key(value), operator, bound)
    zone = ", 'UTC'" if _needs_no_zone(keep, text) else ""
    begin = f"date_trunc('{grain}', {text}{zone})"
    keep.grains[begin] = grain
    start = keep.key(tree.expression(begin), grain)
    if operator in (">=", "<"):
        return tree.compare(start, operator, bound)
    # The bound itself is a moment of its grain's rows, and not the others.
    is_start = tree.expression(f"{text} = {begin}")
    flag = tree.sql(keep.key(is_start, f"is_start_of_{grain}"))
    limit, at = tree.sql(bound), tree.sql(start)
    if operator == ">":
        return tree.expression(f"({at} > {limit} or ({at} = {limit} and not {flag}))")
    return tree.expression(f"({at} < {limit} or ({at} = {limit} and {flag}))")


def _grain(keep: Kept, text: str) -> str:
    """Return the largest grain at whose beginnings all bounds of a time are; empty for none."""
    plan = keep.plan
    type_ = keep.type_of(text)
    bounds = [plan.plain(tree.sql(_at_moment(bound))) for bound in keep.bounds.get(text, [])]
    # An hour begins at the same moments everywhere, but for a few zones' halves of hours.
    largest = _needs_no_zone(keep, text)
    groups = {tree.sql(node) for node in keep.select.group_clause}
    # What the query groups by anyway serves its bounds too.
    usual = sorted(GRAINS[largest:], key=lambda one: _begin(one, text) not in groups)
    for grain in (plan.grain,) if plan.grain else usual:
        begins = [f"date_trunc('{grain}', ({b})::{type_}) = ({b})::{type_}" for b in bounds]
        begins.append(f"date_trunc('{grain}', moment::{type_}) <= moment::{type_}")
        all_begin = f"bool_and({' and '.join(begins)}) from {_MOMENTS} as moment"
        if bounds and plan.catalog.is_true(all_begin):
            note = f"{text} is kept by the {grain}, since its bounds begin one"
            if note not in plan.notes and text not in keep.grains:
                plan.notes.append(note)
            if any(tree.find(bound, pb.ParamRef) for bound in keep.bounds[text]):
                plan.ranges[text] = grain
            return grain
    return ""


def _begin(grain: str, text: str) -> str:
    return tree.sql(tree.expression(f"date_trunc('{grain}', {text})"))


def derived(keep: Kept) -> dict[str, pb.Node]:
    """Return the keys that others decide: what is computed of columns that are keys, or of a grain.

    A day's month is that of its beginning.
    """
    found: dict[str, pb.Node] = {}
    begins = {
        tree.sql(tree.expression(text).func_call.args[1]): text
        for text in keep.keys
        if tree.called(tree.expression(text).func_call) == "date_trunc" and text in keep.grains
    }
    for text in keep.keys:
        node = tree.expression(text)
        columns = {tree.sql(pb.Node(column_ref=ref)) for ref in tree.find(node, pb.ColumnRef)}
        if node.HasField("column_ref") or text in begins.values():
            continue
        if not keep.plan.catalog.zone and any("with time zone" in keep.type_of(c) for c in columns):
            # The model says that somebody has to name the zone.
            continue
        if all(one in keep.keys and keep.type_of(one) in _IDENTICAL for one in columns):
            own = {one: tree.column(keep.alias, keep.keys[one]) for one in columns}
        elif len(columns) == 1 and (begin := begins.get(*columns)) and _is_same(keep, node, begin):
            own = {one: tree.column(keep.alias, keep.keys[begin]) for one in columns}
        else:
            continue
        found[text] = _replaced(node, own)
    return found


def _replaced(node: pb.Node, columns: dict[str, pb.Node]) -> pb.Node:
    """Return an expression with other values in place of its columns."""
    return tree.with_columns(node, lambda one: columns.get(tree.sql(one)))


def _is_same(keep: Kept, node: pb.Node, begin: str) -> bool:
    """Return whether an expression of a time is the same of its grain's beginning."""
    time = tree.expression(begin).func_call.args[1]
    column = tree.sql(time)
    moment = tree.expression(f"moment::{keep.type_of(column)}")
    start = _replaced(tree.expression(begin), {column: moment})
    first, second = (tree.sql(_replaced(node, {column: value})) for value in (moment, start))
    same = f"({first}) is not distinct from ({second})"
    moments = f"(select {_AGES} as moment union all select {_MOMENTS}) as m"
    return keep.plan.catalog.is_true(f"bool_and({same}) from {moments}")


def _needs_no_zone(keep: Kept, text: str) -> bool:
    """Return whether all bounds of a time are moments that the application says, with an offset.

    Then nobody has to say a zone where the query has no other use for it.
    """
    plan = keep.plan
    if plan.catalog.zone or plan.grain == "day" or keep.type_of(text) != "timestamp with time zone":
        return False
    for bound in keep.bounds.get(text, []):
        value = tree.without_casts(bound)
        given = plan.parameters.get(value.param_ref.number)
        if not given or not (given.written or _OFFSET.search(given.value or "")):
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
