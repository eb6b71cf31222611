"""What a model over some entries of FROM has: the keys and measures that a query asks it for."""

from __future__ import annotations

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import free
from loader.proposing.scope import Item, Scope
from waltally.errors import SettingError

_UNORDERED = ("json", "xml", "point", "interval", "real", "double precision", "bit", "bit varying")
"""Types that a key has as text."""
INSTEAD = "keep the rows that it reads (rows models), and ask the query of them"
"""What to do where nothing but copies of tables would be kept."""


class Kept:
    """The keys and measures of a model, which grow as a query asks for them."""

    def __init__(self, scope: Scope, kept: list[Item], name: str) -> None:
        self.scope, self.plan, self.select = scope, scope.plan, scope.select
        self.items, self.name = kept, name
        self.kept = {item.alias for item in kept}
        self.is_whole = len(kept) == len(scope.items)
        self.is_nullable = not self.is_whole and any(item.is_nullable for item in kept)
        multiple = sum(item.kind != "function" for item in kept) > 1
        taken = {alias.aliasname for alias in tree.find(self.select, pb.Alias)}
        self.alias = free("m", taken) if multiple else kept[0].alias
        nodes = self.select.from_clause if self.is_whole else [item.node for item in kept]
        self.inputs = tree.sources_of(nodes)
        self.joined_by = {
            part.string.sval
            for join in tree.find(self.select, pb.JoinExpr)
            for part in join.using_clause
        }
        """Columns that have to keep their names."""
        self.hints = {
            tree.sql(target.res_target.val): target.res_target.name
            for target in self.select.target_list
            if target.res_target.name
        }
        self.grains = {
            tree.sql(tree.column(item.alias, name)): own
            for item in kept
            if item.model
            for name, own in item.model.grains.items()
        }
        """By expression, the grain that it is: at first columns of models below."""
        self.rows = self.inputs
        """The entries, and which of their rows."""
        self.bounds: dict[str, list[pb.Node]] = {}
        """By time, what it is compared with when somebody reads."""
        self.keys: dict[str, str] = {}
        """By expression, the key that has it."""
        self.measures: dict[str, str] = {}
        self.derived: dict[str, pb.Node] = {}
        """By expression, what it is of other keys."""
        self.has_sets = False
        """Whether an aggregate is not the sum of the model's, so that rows are grouped again."""
        self.is_final = False
        """Whether each row of the model is a row of the query."""

    def is_own(self, message: Message) -> bool:
        """Return whether the model can compute an expression: columns of its entries alone."""
        return self.scope.is_own(message, self.kept)

    def type_of(self, text: str) -> str:
        """Return the type of an expression over the kept entries."""
        return self.plan.type_of(text, self.inputs)

    def key(self, node: pb.Node, hint: str = "") -> pb.Node:
        """Return what the query has for an expression that is a key."""
        plain = text = tree.sql(node)
        type_ = self.type_of(text)
        if "." in type_ and not self.plan.catalog.is_enum(type_.removesuffix("[]")):
            raise SettingError(f"{text} is of {type_}, a type of a user", f"write ({text})::text")
        if type_.startswith(_UNORDERED) or type_.endswith("[]") or "." in type_:
            text = f"({text})::text"
        if text not in self.keys and text not in self.derived:
            column = tree.column_name(node)
            name = column or self.hints.get(plain) or hint or f"key_{len(self.keys) + 1}"
            self.keys[text] = self._free_name(name, bool(column))
        own = self.derived.get(text) or tree.column(self.alias, self.keys[text])
        if text == plain:
            return own
        # Two texts may be one value.
        self.has_sets = True
        return tree.expression(f"({tree.sql(own)})::{type_}")

    def measure(self, text: str, hint: str) -> str:
        """Return the model's column that has an aggregate."""
        if text not in self.measures:
            self.measures[text] = self._free_name(hint, False)
        return tree.sql(tree.column(self.alias, self.measures[text]))

    def _free_name(self, name: str, is_column: bool) -> str:
        taken = {*self.keys.values(), *self.measures.values()}
        return free(name, taken if is_column else taken | self.joined_by)

    def outer(self, node: pb.Node) -> pb.Node:
        """Return an expression as the query over the model has it."""
        return tree.changed(node, self._rule)

    def _rule(self, node: pb.Node) -> pb.Node | None:
        """Return what stands for a part of an expression; None where its parts decide."""
        raise NotImplementedError
