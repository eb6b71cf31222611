"""The answer is kept: what is added up over one model is a roll-up, with parameters as keys."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Model
from loader.proposing.keep import Keep
from loader.proposing.latest import compared
from loader.proposing.reading import is_aggregate, is_read
from loader.proposing.scope import Scope

_VALUES = ("a_expr", "func_call", "type_cast", "coalesce_expr", "case_expr")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class RollUp(Keep):
    """A model of the groups of a query over one model, and the query over that."""

    def __init__(self, scope: Scope, name: str, keeps_expressions: bool) -> None:
        super().__init__(scope, scope.items, name)
        self.keeps_expressions = keeps_expressions
        self.is_final = True
        self.answers = {tree.sql(node) for node in self.select.group_clause}
        """The expressions that are its keys."""
        self.asked = {tree.sql(one) for one in map(compared, self._conditions()) if one}

    def _conditions(self) -> list[pb.Node]:
        return tree.conjuncts(self.select.where_clause)

    @property
    def is_possible(self) -> bool:
        """Whether groups of the model's rows decide the answer's rows, and are fewer."""
        if [item.kind for item in self.scope.items] != ["model"]:
            return False
        mark = self.select.from_clause[0].range_var.relname
        model = self.book.marked(mark)
        conditions = self._conditions()
        calls = tree.find(self.select, pb.FuncCall, tree.here(self.select))
        aggregates = [call for call in calls if is_aggregate(self.book, call)]
        summed = [
            part for call in aggregates for part in (*call.args, *call.agg_order, call.agg_filter)
        ]
        parts = [*summed, *self.select.group_clause]
        keys = {tree.sql(tree.column(self.alias, name)) for name in getattr(model, "keys", ())}
        return (
            isinstance(model, Model)
            and not keys <= {*self.answers, *self.asked}
            and all(map(compared, conditions))
            # Where no row is found, a total is a row, and its group is none.
            and bool(self.select.group_clause or (aggregates and not conditions))
            and not any(is_read(self.book, part) or tree.find(part, pb.SubLink) for part in parts)
            and not any(self.scope.refs(link) for link in tree.find(self.select, pb.SubLink))
            and not self._are_enums(mark, summed)
        )

    def _are_enums(self, mark: str, parts: list[pb.Node]) -> bool:
        """Return whether the values of an enum are asked for, which a model has as texts."""
        types = dict(self.book.columns(f"select * from {mark}"))
        refs = (ref for part in parts for ref in tree.find(part, pb.ColumnRef))
        return any("." in types[tree.names(ref)[-1]] for ref in refs)

    def _rule(self, node: pb.Node) -> pb.Node | None:
        text = tree.sql_of_value(node)
        if text in self.answers or text in self.asked:
            return self.key(node)
        if is_aggregate(self.book, node.func_call) or (
            self.keeps_expressions and self._is_answer(node)
        ):
            name = tree.called(node.func_call) or "value"
            return tree.expression(self.measure(text, self.hints.get(text, name)))
        return self._sub_link(node) if node.HasField("sub_link") else None

    def _is_answer(self, node: pb.Node) -> bool:
        """Return whether an expression is of aggregates and constants alone."""
        calls = [call for call in tree.find(node, pb.FuncCall) if is_aggregate(self.book, call)]
        is_comparison = node.a_expr.name and node.a_expr.name[-1].string.sval in _COMPARISONS
        if not calls or is_comparison or node.WhichOneof("node") not in _VALUES:
            return False

        def one(part: pb.Node) -> pb.Node | None:
            return tree.expression("null") if is_aggregate(self.book, part.func_call) else None

        rest = tree.changed(node, one)
        return not tree.find(rest, pb.ColumnRef) and not is_read(self.book, rest)

    def make(self, is_grouped: bool) -> None:
        """Note the model, and change the query to read it. Raises SettingError."""
        self._rewrite(is_grouped)
        self._note_model()
        self.book.columns(tree.statement(self.select))
