"""What a model over some entries of FROM has: the keys and measures that a query asks it for."""

from __future__ import annotations

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Model, free
from loader.proposing.reading import is_read
from loader.proposing.scope import Item, Scope
from waltally.errors import SettingError

_UNORDERED = ("json", "xml", "point", "interval", "real", "double precision", "bit", "bit varying")
"""Types that a key has as text."""


class Kept:
    """The keys and measures of a model, which grow as a query asks for them."""

    def __init__(self, scope: Scope, kept: list[Item], name: str) -> None:
        self.scope, self.book = scope, scope.book
        self.select = scope.select
        self.kept = {item.alias for item in kept}
        self.is_whole = len(kept) == len(scope.items)
        self.is_nullable = not self.is_whole and any(item.is_nullable for item in kept)
        self.name = name
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
        self.grains = {
            tree.sql(tree.column(item.alias, name)): grain
            for item in kept
            if item.kind == "model"
            and isinstance(model := self.book.marked(item.node.range_var.relname), Model)
            for name, grain in model.grains.items()
        }
        """By expression, the grain that it is: at first columns of models below."""
        self.keys: dict[str, str] = {}
        """By expression, the key that has it."""
        self.measures: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.is_final = False
        self.has_sets = False
        """Whether an aggregate is not the sum of the model's, so that rows are grouped again."""
        self.hints = {
            tree.sql(target.res_target.val): target.res_target.name
            for target in self.select.target_list
            if target.res_target.name
        }
        self.derived: dict[str, pb.Node] = {}
        """By expression, what it is of other keys."""
        self.pushed: list[pb.Node] = []
        self.bounds: dict[str, list[str]] = {}

    def is_own(self, message: Message) -> bool:
        """Return whether the model can compute an expression: columns of its entries alone."""
        refs = self.scope.refs(message)
        is_own = bool(refs) and all(item and item.alias in self.kept for item, _ in refs)
        return is_own and not is_read(self.book, message)

    def type_of(self, text: str) -> str:
        """Return the type of an expression over the kept entries."""
        if text not in self.types:
            ((_, type_),) = self.book.columns(f"select {text} as value from {self.inputs}")
            self.types[text] = type_
        return self.types[text]

    def key(self, node: pb.Node) -> pb.Node:
        """Return what the query has for an expression that is a key."""
        text = tree.sql(node)
        type_ = self.type_of(text)
        if "." in type_ and not self.book.catalog.is_enum(type_.removesuffix("[]")):
            raise SettingError(f"{text} is of {type_}, a type of a user", f"write ({text})::text")
        if type_.startswith(_UNORDERED) or type_.endswith("[]") or "." in type_:
            text = f"({text})::text"
        if text not in self.keys and text not in self.derived:
            plain = node.HasField("column_ref")
            name = tree.names(node.column_ref)[-1] if plain else self.hints.get(tree.sql(node), "")
            self.keys[text] = self.free_name(name or f"key_{len(self.keys) + 1}", plain)
        own = self.derived.get(text) or tree.column(self.alias, self.keys[text])
        if text != tree.sql(node):
            # Two texts may be one value.
            self.has_sets = True
            return tree.expression(f"({tree.sql(own)})::{type_}")
        return own

    def free_name(self, name: str, is_column: bool) -> str:
        """Return a name that no column of the model has."""
        taken = {*self.keys.values(), *self.measures.values()}
        if not is_column:
            taken |= self.joined_by
        return free(name, taken)

    def measure(self, text: str, hint: str) -> str:
        """Return the model's column that has an aggregate."""
        if text not in self.measures:
            self.measures[text] = self.free_name(hint, False)
        return tree.sql(tree.column(self.alias, self.measures[text]))

    def outer(self, node: pb.Node) -> pb.Node:
        """Return an expression as the query over the model has it."""
        return tree.changed(node, self._rule)

    def _rule(self, node: pb.Node) -> pb.Node | None:
        """Return what stands for a part of an expression; None where its parts decide."""
        raise NotImplementedError
