"""What the clock gives is meant in the zone that the user names, not in the reader's."""

from __future__ import annotations

import re

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book
from loader.proposing.reading import CLOCKS
from waltally.tables import literal

_WITH_ZONE = "timestamp with time zone"


def write_zone(book: Book, select: pb.SelectStmt) -> None:
    """Write today, and the beginnings of today's month and the like, with their zone."""
    zone = literal(book.catalog.zone)
    days = {
        pb.SVFOP_CURRENT_DATE: f"(now() at time zone {zone})::date",
        pb.SVFOP_LOCALTIMESTAMP: f"now() at time zone {zone}",
    }

    def one(node: pb.Node) -> pb.Node | None:
        if node.HasField("sqlvalue_function"):
            text = days.get(node.sqlvalue_function.op)
            return tree.expression(text) if text else None
        if _is_begin(node.a_expr.lexpr):
            return _moved_by_days(node)
        cast, call = node.type_cast, node.func_call
        is_trunc = _is_begin(node)
        is_day = bool(cast.type_name.names) and cast.type_name.names[-1].string.sval == "date"
        value = call.args[1] if is_trunc else cast.arg
        if not (is_trunc or (is_day and _is_clock(value))):
            return None
        text = tree.sql(tree.changed(value, one))
        type_ = _type(book, text)
        moved = f"({text}) at time zone {zone}" if type_ == _WITH_ZONE else f"({text})::timestamp"
        if is_day:
            return tree.expression(f"({moved})::date")
        begin = f"date_trunc({tree.sql(call.args[0])}, {moved})"
        is_local = type_ == "timestamp without time zone"
        return tree.expression(begin if is_local else f"{begin} at time zone {zone}")

    def _moved_by_days(node: pb.Node) -> pb.Node | None:
        """Return a day that is some days before another one, in a zone whose days differ."""
        begin = tree.sql(tree.changed(node.a_expr.lexpr, one))
        step, sign = tree.sql(node.a_expr.rexpr), node.a_expr.name[-1].string.sval
        if tree.find(node.a_expr.rexpr, pb.ColumnRef) or re.search(r"hour|min|sec|\d:\d", step):
            return None
        if (_type(book, begin), _type(book, step)) != (_WITH_ZONE, "interval"):
            return None
        return tree.expression(f"(({begin}) at time zone {zone} {sign} {step}) at time zone {zone}")

    if book.catalog.zone:
        tree.change(select, one)


def with_zone(book: Book, bound: pb.Node, type_: str) -> pb.Node:
    """Return a bound of a value of this type: the midnight of a date is that of the zone."""
    text, zone = tree.sql(bound), book.catalog.zone
    if not zone or type_ != _WITH_ZONE or _type(book, text) in ("text", _WITH_ZONE):
        return bound
    return tree.expression(f"({text})::timestamp at time zone {literal(zone)}")


def _type(book: Book, text: str) -> str:
    ((_, type_),) = book.columns(f"select {text} as value")
    return type_


def _is_begin(node: pb.Node) -> bool:
    """Return whether it is the beginning of today, this month and the like, or days beside it."""
    if node.a_expr.kind == pb.AEXPR_OP and node.a_expr.name[-1].string.sval in ("+", "-"):
        return _is_begin(node.a_expr.lexpr)
    call = node.func_call
    return tree.called(call) == "date_trunc" and len(call.args) == 2 and _is_clock(call.args[1])


def _is_clock(value: pb.Node) -> bool:
    names = map(tree.called, tree.find(value, pb.FuncCall))
    has_clock = bool(tree.find(value, pb.SQLValueFunction)) or any(one in CLOCKS for one in names)
    return has_clock and not tree.find(value, pb.ColumnRef)
