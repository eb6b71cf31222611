"""Times of the query over models are meant in the zone that the user names, not in the reader's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import Plan
from waltally.errors import LoaderError
from waltally.tables import literal, quoted

_AWARE = "timestamp with time zone"
_NAIVE = ("date", "timestamp without time zone")
_PAIRED = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "BETWEEN", "NOT BETWEEN")
_FIELDS = {"date_part": 1, "extract": 1, "to_char": 0, "date": 0}
"""Functions of the day and the hour, and where the time is among their arguments."""

_CHOICES = ("min_max_expr", "coalesce_expr", "case_expr")
_DAYS = re.compile(r"day|week|mon|year|decade|cent|mil|'P", re.I)
_HOURS = re.compile(r"hour|min|sec|\d:\d|'P", re.I)


def write_zone(plan: Plan, select: pb.SelectStmt) -> None:
    """Write the zone where a time becomes a day, or a day a time. Raises LoaderError."""
    if plan.catalog.zone:
        _Query(plan, select, {}).write()


class _Query:
    """One SELECT, whose types PostgreSQL says."""

    def __init__(self, plan: Plan, select: pb.SelectStmt, ctes: Mapping[str, str]) -> None:
        self.plan, self.select = plan, select
        self.zone = literal(plan.catalog.zone)
        self.ctes = {**ctes}
        for node in select.with_clause.ctes:
            cte = node.common_table_expr
            names = ", ".join(quoted(column.string.sval) for column in cte.aliascolnames)
            query = tree.statement(cte.ctequery.select_stmt)
            self.ctes[cte.ctename] = f"{quoted(cte.ctename)} {names and f'({names})'} as ({query})"

    def write(self) -> None:
        """Write the zone, here and below."""
        for inner in tree.own(self.select, pb.SelectStmt):
            if inner is not self.select:
                _Query(self.plan, inner, self.ctes).write()
        if not self.select.HasField("larg"):
            tree.change(self.select, self._rule)

    def _type(self, node: pb.Node) -> str:
        """Return an expression's type; empty where it reads a query around this one."""
        inputs = tree.sources_of(self.select.from_clause) if self.select.from_clause else ""
        ctes = f"with {', '.join(self.ctes.values())} " if self.ctes else ""
        # A list, as after IN, is no value.
        value = tree.sql_of_value(node) or "null"
        text = f"{ctes}select {value} as value{inputs and f' from {inputs}'}"
        try:
            ((_, type_),) = self.plan.columns(text)
        except LoaderError:
            return ""
        return type_

    def _local(self, node: pb.Node) -> str:
        return f"({tree.sql(tree.changed(node, self._rule))}) at time zone {self.zone}"

    def _rule(self, node: pb.Node) -> pb.Node | None:
        kind = node.WhichOneof("node")
        if kind == "select_stmt":
            return node
        if kind == "sqlvalue_function":
            days = {pb.SVFOP_CURRENT_DATE: "::date", pb.SVFOP_LOCALTIMESTAMP: ""}
            cast = days.get(node.sqlvalue_function.op)
            text = f"(now() at time zone {self.zone}){cast}"
            return None if cast is None else tree.expression(text)
        ways = {
            "type_cast": self._cast,
            "func_call": self._call,
            "a_expr": self._pair,
            "range_function": self._series,
        }
        if kind in ways:
            return ways[kind](node)
        return self._choice(node) if kind in _CHOICES else None

    def _cast(self, node: pb.Node) -> pb.Node | None:
        cast = node.type_cast
        to, type_ = cast.type_name.names[-1].string.sval, self._type(cast.arg)
        if to == "timestamptz" and type_ in _NAIVE:
            return self._aware(cast.arg)
        if to not in ("date", "time", "timestamp") or type_ != _AWARE:
            return None
        other = pb.Node(type_cast=cast)
        other.type_cast.arg.CopyFrom(tree.expression(f"({self._local(cast.arg)})"))
        return other

    def _call(self, node: pb.Node) -> pb.Node | None:
        call, name = node.func_call, tree.called(node.func_call)
        other = pb.Node(func_call=call)
        args = other.func_call.args
        if name == "date_trunc" and len(args) == 2 and self._type(node) == _AWARE:
            is_day = self._type(args[1]) == "date"
            args[1].CopyFrom(self._aware(args[1]) if is_day else tree.changed(args[1], self._rule))
            args.append(tree.expression(self.zone))
            return other
        if name == "age" and _AWARE in map(self._type, args):
            if len(args) == 1:
                args.insert(0, tree.expression(f"(now() at time zone {self.zone})::date"))
            for arg in args:
                arg.CopyFrom(tree.expression(self._without_zone(arg)))
            return other
        ordinal = _FIELDS.get(name)
        if ordinal is None or ordinal >= len(args) or self._type(args[ordinal]) != _AWARE:
            return None
        if args[0].a_const.sval.sval.lower().startswith(("epoch", "timezone")):
            return None
        args[ordinal].CopyFrom(tree.expression(f"({self._local(args[ordinal])})"))
        return other

    def _aware(self, node: pb.Node) -> pb.Node:
        """Return a day or a local time as a moment."""
        text = tree.sql(tree.changed(node, self._rule))
        return tree.expression(f"({text})::timestamp at time zone {self.zone}")

    def _without_zone(self, node: pb.Node) -> str:
        """Return a day, a local time or a moment as a local time."""
        text = tree.sql(tree.changed(node, self._rule))
        if self._type(node) not in _NAIVE:
            text = f"({text})::timestamptz at time zone {self.zone}"
        return f"({text})::timestamp"

    def _choice(self, node: pb.Node) -> pb.Node | None:
        """One of several values, which are moments if one of them is."""
        other = pb.Node()
        other.CopyFrom(node)
        entry = getattr(other, node.WhichOneof("node") or "")
        is_case = node.HasField("case_expr")
        values = [*(one.case_when.result if is_case else one for one in entry.args)]
        values += [entry.defresult] if is_case and entry.HasField("defresult") else []
        types = [*map(self._type, values)]
        if _AWARE not in types:
            return None
        for value, type_ in zip(values, types, strict=True):
            if type_ in _NAIVE:
                value.CopyFrom(self._aware(value))
        tree.change(other, self._rule)
        return other

    def _series(self, node: pb.Node) -> pb.Node | None:
        """Days or months that begin in the zone."""
        series = node.range_function
        call = series.functions[0].list.items[0].func_call
        if tree.called(call) != "generate_series" or len(call.args) != 3 or series.ordinality:
            return None
        if self._type(pb.Node(func_call=call)) != _AWARE or not _is_step_of_days(call.args[2]):
            return None
        first, last = map(self._without_zone, call.args[:2])
        series_of_days = f"generate_series({first}, {last}, {tree.sql(call.args[2])})"
        text = f"select g at time zone {self.zone} from {series_of_days} as g"
        sub = pb.RangeSubselect(lateral=True, alias=series.alias)
        sub.subquery.select_stmt.CopyFrom(tree.parse(text)[0])
        name = series.alias.aliasname or "generate_series"
        sub.alias.aliasname = name
        if not sub.alias.colnames:
            sub.alias.colnames.append(pb.Node(string=pb.String(sval=name)))
        return pb.Node(range_subselect=sub)

    def _later(self, moment: pb.Node, sign: str, step: pb.Node) -> pb.Node | None:
        """Return a moment some days and hours away: days are the zone's, hours are not."""
        if _is_step_of_days(step):
            return tree.expression(
                f"({self._local(moment)} {sign} {tree.sql(step)}) at time zone {self.zone}"
            )
        if _is_constant(step) and not _DAYS.search(tree.sql(step)):
            return None
        text = f"({tree.sql(tree.changed(step, self._rule))})"
        days = f"date_trunc('day', {text})"
        local = f"({self._local(moment)} {sign} {days}) at time zone {self.zone}"
        return tree.expression(f"({local} {sign} ({text} - {days}))")

    def _pair(self, node: pb.Node) -> pb.Node | None:
        """A moment beside a day or a local time, or some days away."""
        other = pb.Node(a_expr=node.a_expr)
        expr = other.a_expr
        sign, left, right = expr.name[-1].string.sval, expr.lexpr, expr.rexpr
        sides = [left, *(right.list.items if "BETWEEN" in sign else [right])]
        types = [self._type(side) for side in sides] if sign in _PAIRED else []
        if types == [_AWARE, "interval"]:
            return self._later(left, sign, right)
        if types == ["interval", _AWARE]:
            return self._later(right, sign, left)
        if _AWARE not in types or not {*types} & {*_NAIVE}:
            return None
        for side, type_ in zip(sides, types, strict=True):
            side.CopyFrom(self._aware(side) if type_ in _NAIVE else tree.changed(side, self._rule))
        if "BETWEEN" not in sign:
            return other
        # The grammar takes no AT TIME ZONE as a bound.
        both = tree.all_of([tree.compare(left, ">=", sides[1]), tree.compare(left, "<=", sides[2])])
        is_not = sign.startswith("NOT")
        return pb.Node(bool_expr=pb.BoolExpr(boolop=pb.NOT_EXPR, args=[both])) if is_not else both


def _is_constant(step: pb.Node) -> bool:
    """Return whether an interval is one constant."""
    return bool(tree.without_casts(step).HasField("a_const"))


def _is_step_of_days(step: pb.Node) -> bool:
    """Return whether a step is a constant number of days or months, without hours."""
    text = tree.sql(step)
    return _is_constant(step) and bool(_DAYS.search(text)) and not _HOURS.search(text)
