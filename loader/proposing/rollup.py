"""An answer is kept: groups of a model's rows, or the first rows of each, are a roll-up."""

from __future__ import annotations

from collections.abc import Sequence

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.keep import Keep
from loader.proposing.kept import INSTEAD
from loader.proposing.plan import Model, free
from loader.proposing.scope import Scope, aggregates_of, is_aggregate, is_read, name_of
from waltally.errors import SettingError

_VALUES = ("a_expr", "func_call", "type_cast", "coalesce_expr", "case_expr")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class RollUp(Keep):
    """A model of the groups of a query over one model, and the query over that."""

    def __init__(self, scope: Scope, name: str, keeps_expressions: bool) -> None:
        super().__init__(scope, scope.items, name)
        self.keeps_expressions = keeps_expressions
        self.is_final = True
        self.conditions = tree.conjuncts(self.select.where_clause)
        groups = {tree.sql(node) for node in self.select.group_clause}
        asked = {tree.sql(one) for one in map(_filled_in, self.conditions) if one}
        self.answers = groups | asked
        """The expressions that are its keys."""

    @property
    def is_possible(self) -> bool:
        """Whether groups of the model's rows decide the answer's rows, and are fewer."""
        (item, *others) = self.items
        if others or not item.model:
            return False
        aggregates = aggregates_of(self.plan, self.select)
        summed = [
            part for call in aggregates for part in (*call.args, *call.agg_order, call.agg_filter)
        ]
        parts = [*summed, *self.select.group_clause]
        keys = {tree.sql(tree.column(self.alias, name)) for name in item.model.compiled.keys}
        return (
            not keys <= self.answers
            and all(map(_filled_in, self.conditions))
            # Where no row is found, a total is a row, and its group is none.
            and bool(self.select.group_clause or (aggregates and not self.conditions))
            and not any(is_read(self.plan, part) or tree.find(part, pb.SubLink) for part in parts)
            and not any(self.scope.refs(link) for link in tree.find(self.select, pb.SubLink))
            and not self._are_enums(item.node.range_var.relname, summed)
        )

    def _are_enums(self, mark: str, parts: list[pb.Node]) -> bool:
        """Return whether the values of an enum are asked for, which a model has as texts."""
        types = dict(self.plan.columns(f"select * from {mark}"))
        refs = (ref for part in parts for ref in tree.find(part, pb.ColumnRef))
        return any("." in types[tree.names(ref)[-1]] for ref in refs)

    def _rule(self, node: pb.Node) -> pb.Node | None:
        text = tree.sql_of_value(node)
        if text in self.answers:
            return self.key(node)
        if is_aggregate(self.plan, node.func_call) or (
            self.keeps_expressions and self._is_answer(node)
        ):
            name = tree.called(node.func_call) or "value"
            return tree.expression(self.measure(text, self.hints.get(text, name)))
        return self._sub_link(node) if node.HasField("sub_link") else None

    def _is_answer(self, node: pb.Node) -> bool:
        """Return whether an expression is of aggregates and constants alone."""
        is_comparison = node.a_expr.name and node.a_expr.name[-1].string.sval in _COMPARISONS
        if is_comparison or node.WhichOneof("node") not in _VALUES:
            return False

        def one(part: pb.Node) -> pb.Node | None:
            return tree.expression("null") if is_aggregate(self.plan, part.func_call) else None

        rest = tree.changed(node, one)
        return rest != node and not tree.find(rest, pb.ColumnRef) and not is_read(self.plan, rest)

    def make(self, is_grouped: bool) -> None:
        """Note the model, and change the query to read it. Raises SettingError."""
        self._rewrite(self.scope, is_grouped)
        self._note_model()
        self.plan.columns(tree.statement(self.select))


class Latest:
    """A model of a query's rows: those of one group decide each other."""

    def __init__(self, scope: Scope, name: str, filters: Sequence[pb.Node]) -> None:
        """Take the scope of a query over one model of rows, which it changes."""
        self.plan, self.select = scope.plan, scope.select
        self.name, self.filters = name, filters
        (self.item,) = scope.items
        self.inner = tree.copied(scope.select)
        """The model's query."""
        self.columns: dict[str, str] = {}
        """By expression, the model's column that has it."""

    def make(self) -> None:
        """Note the model, and change the query to read it. Raises SettingError."""
        shown = self._shown()
        del self.inner.target_list[:]
        listed = [
            f"{tree.sql(self._column(value, name))} as {tree.sql(tree.column(name))}"
            for name, value in shown.items()
        ]
        asked = self._take_asked()
        if tree.has_windows(self.select):
            for name in self._key():
                self._column(tree.column(self.item.alias, name))
        for node in self._groups():
            self._column(node)
        order = [self._sorted(node, [*shown]) for node in self.select.sort_clause]
        tree.clear_limit(self.inner)
        reads = tree.parse(f"select {', '.join(listed)} from {self.plan.model(self._model())}")[0]
        tree.set_where(reads, asked)
        reads.sort_clause.extend(order)
        for part in ("limit_count", "limit_offset"):
            if self.select.HasField(part):
                getattr(reads, part).CopyFrom(getattr(self.select, part))
        reads.limit_option = self.select.limit_option
        self.select.CopyFrom(reads)

    def _key(self) -> tuple[str, ...]:
        """Return the primary key of the table whose rows the model below has."""
        table = self.plan.sources.get(self.item.model.copied) if self.item.model else None
        return table.key if table else ()

    def _groups(self) -> list[pb.Node]:
        """Return what DISTINCT ON takes one row of, or what every window has in PARTITION BY."""
        windows = tree.own(self.select, pb.WindowDef)
        parted = [[*own.partition_clause] for own in windows if own.partition_clause]
        first, *others = parted or [[*self.select.distinct_clause]]
        texts = [{tree.sql(node) for node in other} for other in others]
        return [node for node in first if all(tree.sql(node) in other for other in texts)]

    def _model(self) -> Model:
        text = tree.statement(self.inner)
        if self.filters:
            bare = [
                tree.with_columns(one, lambda column: tree.column(tree.column_name(column)))
                for one in self.filters
            ]
            where = tree.sql(tree.all_of(bare))
            text = f"select * from ({text}) as ranked where {where}"
        return Model(
            self.name,
            tree.spelled(text),
            tuple(self.columns.values()),
            meanings={name: own for own, name in self.columns.items()},
        )

    def _shown(self) -> dict[str, pb.Node]:
        """Return what the query selects, by name."""
        shown: dict[str, pb.Node] = {}
        for target in self.select.target_list:
            own = target.res_target
            if tree.column_name(own.val) == "*":
                names = self.item.columns
                shown |= {name: tree.column(self.item.alias, name) for name in names}
            else:
                shown[own.name or name_of(own.val)] = own.val
        return shown

    def _column(self, node: pb.Node, hint: str = "") -> pb.Node:
        """Let the model have an expression, and return its column."""
        column = tree.column_name(node)
        text = tree.sql(tree.column(self.item.alias, column) if column else node)
        if text not in self.columns:
            name = free(hint or name_of(node) or "value", {*self.columns.values()})
            self.columns[text] = name
            tree.add_column(self.inner, name, node)
        return tree.column(self.columns[text])

    def _take_asked(self) -> list[pb.Node]:
        """Return conditions on what somebody fills in; what they compare then parts the groups."""
        rest, asked = [], []
        for condition in tree.conjuncts(self.select.where_clause):
            if not is_read(self.plan, condition) and not tree.find(condition, pb.SubLink):
                rest.append(condition)
                continue
            column = _filled_in(condition)
            if column is None:
                raise SettingError(
                    f"{tree.sql(condition)} decides which row of a group comes first, when somebody"
                    " reads: only copies of the tables would be kept",
                    INSTEAD,
                )
            self._part_by(column)
            asked.append(tree.with_columns(condition, self._column))
        tree.set_where(self.inner, rest)
        return asked

    def _part_by(self, column: pb.Node) -> None:
        if tree.is_distinct_on(self.select):
            self.inner.distinct_clause.insert(0, column)
            self.inner.sort_clause.insert(0, pb.Node(sort_by=pb.SortBy(node=column)))
        for window in tree.own(self.inner, pb.WindowDef):
            # One that names another one has its PARTITION BY.
            if not window.refname and not (window.name and not window.frame_options):
                window.partition_clause.append(column)

    def _sorted(self, node: pb.Node, shown: list[str]) -> pb.Node:
        """Return what the query over the model sorts by."""
        other = tree.copied(node)
        value = other.sort_by.node
        is_shown = tree.names(value.column_ref) in [[name] for name in shown]
        if not value.HasField("a_const") and not is_shown:
            value.CopyFrom(self._column(value))
        return other


def _filled_in(condition: pb.Node) -> pb.Node | None:
    """Return the column that a condition compares with one value that somebody fills in."""
    for own, other in tree.equal_sides(condition):
        if own.HasField("column_ref") and not tree.find(other, pb.ColumnRef):
            return own
    return None
