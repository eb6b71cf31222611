"""An aggregate over rows is put together from the model's: counts and sums are added again."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.kept import Kept
from loader.proposing.scope import is_read
from waltally.errors import SettingError

SETS = {"min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or"}
"""Aggregates to which a value that comes twice is the same as once."""
_FLOATS = ("real", "double precision")

_PERCENTILE = """(
    select reached.value
    from (
        select weighed.value, weighed.place, sum(weighed.weight) over () as together,
            sum(weighed.weight) over (order by weighed.place) as so_far
        from unnest({values}, {weights}) with ordinality as weighed (value, weight, place)
        where weighed.value is not null
    ) as reached
    where reached.so_far >= ceil(({fraction})::double precision * reached.together)::numeric
    order by reached.place
    limit 1
)"""
"""What cdc.percentile_disc does, which the source does not have when the proof asks it."""


def put_together(keep: Kept, call: pb.FuncCall) -> pb.Node:
    """Return what the query over the model has for an aggregate. Raises SettingError."""
    name = tree.called(call)
    if call.agg_distinct or name in SETS:
        return _over_values(keep, call)
    if name == "percentile_disc":
        return _percentile(keep, call)
    if name not in ("count", "sum", "avg") or call.agg_order:
        raise SettingError(
            f"{name}() needs each row, in its order or as often as it comes",
            "keep the rows it is over (a rows model), and ask it of them",
        )
    return tree.expression(_Sum(keep, call).text(name))


def _over_values(keep: Kept, call: pb.FuncCall) -> pb.Node:
    """A distinct count, a minimum and the like: the value is a key."""
    keep.has_sets = True
    other = pb.Node(func_call=call)
    own = other.func_call
    filters = [own.agg_filter] if own.HasField("agg_filter") else []
    for part in (*own.args, *own.agg_order, *filters):
        part.CopyFrom(keep.outer(part))
    return other


def _percentile(keep: Kept, call: pb.FuncCall) -> pb.Node:
    """A percentile: the value is a key, which stands for as many rows as its group has."""
    text = tree.sql(pb.Node(func_call=call))
    if keep.plan.type_of(text, tree.sources_of(keep.select.from_clause)).endswith("[]"):
        raise SettingError(f"{text} is several values", "ask for each percentile by itself")
    own = _over_values(keep, call).func_call

    def all_of(value: pb.Node) -> str:
        """In the order of the percentile, and of the same rows."""
        name = tree.words("array_agg")
        one = pb.FuncCall(funcname=name, args=[value], agg_order=own.agg_order)
        if own.HasField("agg_filter"):
            one.agg_filter.CopyFrom(own.agg_filter)
        return tree.sql(pb.Node(func_call=one))

    return tree.expression(
        _PERCENTILE.format(
            values=all_of(own.agg_order[0].sort_by.node),
            weights=all_of(tree.expression(_Sum(keep, call).rows())),
            fraction=tree.sql(own.args[0]),
        )
    )


class _Sum:
    """A count, a sum or an average, and where its parts are computed."""

    def __init__(self, keep: Kept, call: pb.FuncCall) -> None:
        self.keep, self.call = keep, call
        # count(1) counts rows; sum(1) is no column's either, and adds its constant.
        self.is_star = call.agg_star or (
            tree.called(call) == "count"
            and not keep.scope.refs(call.args[0])
            and not is_read(keep.plan, call.args[0])
        )
        self.value = pb.Node() if self.is_star else call.args[0]
        filters = tree.conjuncts(call.agg_filter)
        self.of_nulls = "" if filters else self._of_nulls()
        """What an expression is of a row of nulls, which an outer join gives."""
        bare = self.value.HasField("column_ref")
        self.is_inner = keep.is_own(self.value) and (
            bare or not keep.is_nullable or bool(self.of_nulls)
        )
        can_filter = self.is_inner or (self.is_star and not keep.is_nullable)
        inner = [one for one in filters if can_filter and keep.is_own(one)]
        self.inner = f" filter (where {tree.sql(tree.all_of(inner))})" if inner else ""
        self.outer = [f"({tree.sql(keep.outer(one))})" for one in filters if one not in inner]
        if self.outer:
            keep.has_sets = True

    def _of_nulls(self) -> str:
        """Return the value over nulls, if it can be asked for; empty where it needs none."""
        keep, value = self.keep, self.value
        if not keep.is_nullable or value.HasField("column_ref") or not keep.is_own(value):
            return ""

        def null(column: pb.Node) -> pb.Node:
            return tree.expression(f"null::{keep.type_of(tree.sql(column))}")

        text = f"({tree.sql(tree.with_columns(value, null))})"
        # The planner computes it, also where there is no such row.
        can_be = keep.plan.catalog.is_true(f"{text} is not distinct from {text}")
        return text if can_be else ""

    def _or_of_nulls(self, own: str, of_nulls: str) -> str:
        """Return a measure, or of a row of nulls what its expression is."""
        if not self.of_nulls:
            return own
        rows = self.keep.measure("count(*)", "row_count")
        return f"case when {rows} is null then {of_nulls} else {own} end"

    def text(self, name: str) -> str:
        """Return the expression over the model."""
        if name == "count":
            return self._count()
        if name == "sum":
            return self._sum(self._type("sum"))
        type_ = self._type("avg")
        total = f"({self._sum('numeric')})::numeric / nullif({self._count('', '')}, 0)"
        return f"({total})::{type_}" if type_ in _FLOATS else f"({total})"

    def _type(self, name: str) -> str:
        text = f"{name}({tree.sql(self.value)})"
        entries = tree.sources_of(self.keep.select.from_clause)
        type_ = self.keep.plan.type_of(text, self.keep.inputs if self.is_inner else entries)
        if type_ in ("interval", "money"):
            raise SettingError(
                f"{text} adds up values of type {type_}, whose parts are rounded one by one",
                "add up extract(epoch from …), and make an interval of the result",
            )
        return type_

    def _count(self, empty: str = "0", cast: str = "bigint") -> str:
        if self.is_inner:
            text = f"count({tree.sql(self.value)}){self.inner}"
            own = self.keep.measure(text, self._hint("count"))
            own = self._or_of_nulls(own, f"({self.of_nulls} is not null)::integer")
            return self._added(own, empty, cast)
        if self.is_star:
            return self._added(self.rows(self._hint("count")), empty, cast)
        is_counted = f"({tree.sql(self.keep.outer(self.value))}) is not null"
        return self._added(self.rows(), empty, cast, is_counted)

    def rows(self, hint: str = "row_count") -> str:
        """Return how many rows a row of the model stands for."""
        own = self.keep.measure(f"count(*){self.inner}", hint)
        return f"coalesce({own}, 1)" if self.keep.is_nullable else own

    def _sum(self, type_: str) -> str:
        cast = type_ if type_ in ("bigint", *_FLOATS) else ""
        value = tree.sql(self.value if self.is_inner else self.keep.outer(self.value))
        of_nulls = self.of_nulls
        if self._type("sum") in _FLOATS:
            value, of_nulls = (
                f"({one})::double precision::text::numeric" for one in (value, of_nulls)
            )
        if self.is_inner:
            own = self.keep.measure(f"sum({value}){self.inner}", self._hint("sum"))
            return self._added(self._or_of_nulls(own, of_nulls), "", cast)
        self.keep.has_sets = True
        return self._added(f"({value}) * {self.rows()}", "", cast)

    def _added(self, own: str, empty: str, cast: str, *more: str) -> str:
        if self.keep.is_final:
            return f"({own})::{cast}" if cast in _FLOATS else own
        filters = " and ".join((*self.outer, *more))
        text = f"sum({own})" + (f" filter (where {filters})" if filters else "")
        text = f"coalesce({text}, {empty})" if empty else text
        return f"({text})::{cast}" if cast else text

    def _hint(self, kind: str) -> str:
        """Return a name for a sum or count of the model: the query's own, or its column's."""
        own: str = self.keep.hints.get(tree.sql(pb.Node(func_call=self.call)), "")
        is_divisor = kind == "count" and tree.called(self.call) == "avg"
        if own and not is_divisor:
            return own
        name: str = tree.column_name(self.value)
        if not name:
            return f"{own}_count" if own else "row_count" if kind == "count" else kind
        item = self.keep.scope.find(self.value.column_ref)[1]
        is_of_fact = item and item.model and not item.model.copied
        return name if is_of_fact else f"{name}_{kind}"
