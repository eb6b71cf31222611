"""Entries of FROM become a model: what is asked of their rows is its keys and sums."""

from __future__ import annotations

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import grain, tree
from loader.proposing.book import Model
from loader.proposing.reading import is_read
from loader.proposing.scope import Item, Scope, scoped_refs
from waltally.errors import SettingError

_UNORDERED = ("json", "xml", "point", "interval", "real", "double precision", "bit", "bit varying")
"""Types that a key has as text."""

_EXPRESSIONS = {
    *("column_ref", "a_expr", "bool_expr", "func_call", "type_cast", "case_expr", "coalesce_expr"),
    *(
        "null_test",
        "boolean_test",
        "a_indirection",
        "min_max_expr",
        "a_array_expr",
        "collate_clause",
    ),
    "sub_link",
}


class Keep:
    """What a model over some entries of FROM has to have, and what the query is over it."""

    def __init__(self, scope: Scope, kept: list[Item], name: str) -> None:
        self.scope, self.book = scope, scope.book
        self.select = scope.select
        self.kept = {item.alias for item in kept}
        self.is_whole = len(kept) == len(scope.items)
        self.is_nullable = not self.is_whole and any(item.is_nullable for item in kept)
        self.name = name
        multiple = sum(item.kind != "function" for item in kept) > 1
        self.alias = self._new_alias() if multiple else kept[0].alias
        nodes = self.select.from_clause if self.is_whole else [item.node for item in kept]
        holder = pb.SelectStmt()
        holder.from_clause.extend(nodes)
        self.inputs = tree.sources_of(holder)
        self.joined_by = {
            part.string.sval
            for join in tree.find(self.select, "join_expr")
            for part in join.using_clause
        }
        """Columns that have to keep their names."""
        self.kept_grains = self._kept_grains(kept)
        self.grains: dict[str, str] = {}
        """By expression, the grain that it is."""
        self.keys: dict[str, str] = {}
        """By expression, the key that has it."""
        self.measures: dict[str, str] = {}
        self.casts: dict[str, str] = {}
        """By key, what its text is cast to."""
        self.types: dict[str, str] = {}
        self.is_final = False
        self.has_sets = False
        """Whether an aggregate is not the sum of the model's, so that rows are grouped again."""
        self.hints = {
            tree.sql(target.res_target.val): target.res_target.name
            for target in self.select.target_list
            if target.res_target.name
        }
        self.pushed: list[pb.Node] = []
        self.bounds: dict[str, list[str]] = {}

    def _new_alias(self) -> str:
        """Return an alias that nothing in the query has."""
        entries = ("range_var", "range_subselect", "range_function")
        taken = {one.alias.aliasname for kind in entries for one in tree.find(self.select, kind)}
        return next(name for name in ("m", *(f"m{n}" for n in range(2, 100))) if name not in taken)

    def _kept_grains(self, kept: list[Item]) -> dict[str, str]:
        """Return the columns of models below that are the beginnings of a grain already."""
        return {
            tree.sql(tree.column(item.alias, name)): grain
            for item in kept
            if item.kind == "model"
            and isinstance(model := self.book.marked(item.node.range_var.relname), Model)
            for name, grain in model.grains.items()
        }

    # What belongs where

    def is_own(self, message: Message) -> bool:
        """Return whether an expression reads columns of the kept entries and no other ones."""
        refs = self.scope.refs(message)
        return bool(refs) and all(item and item.alias in self.kept for item, _ in refs)

    def is_read(self, message: Message) -> bool:
        """Return whether an expression can only be computed when somebody reads."""
        return is_read(self.book, message)

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
        if type_.startswith(_UNORDERED) or type_.endswith("[]") or "." in type_:
            text = f"({text})::text"
        if text not in self.keys:
            plain = node.WhichOneof("node") == "column_ref"
            name = tree.names(node.column_ref)[-1] if plain else self.hints.get(tree.sql(node), "")
            self.keys[text] = self._free(name or f"key_{len(self.keys) + 1}", plain)
            if (text.endswith("::text") and not plain) or type_.endswith("[]"):
                self.casts[text] = type_
        if text != tree.sql(node):
            # Two texts may be one value.
            self.has_sets = True
            return tree.expression(f"({self.alias}.{self._quoted(text)})::{type_}")
        return tree.column(self.alias, self.keys[text])

    def _quoted(self, text: str) -> str:
        return tree.sql(tree.column(self.keys[text]))

    def _free(self, name: str, is_column: bool) -> str:
        taken = {*self.keys.values(), *self.measures.values()}
        if not is_column:
            taken |= self.joined_by
        numbers = [name, *(f"{name}_{n}" for n in range(2, 100))]
        return next(one for one in numbers if one not in taken and not one.startswith("waltally"))

    def measure(self, text: str, hint: str) -> str:
        """Return the model's column that has an aggregate."""
        if text not in self.measures:
            self.measures[text] = self._free(hint, False)
        return tree.sql(tree.column(self.alias, self.measures[text]))

    # The query over the model

    def outer(self, node: pb.Node) -> pb.Node:
        """Return an expression as the query over the model has it."""
        holder = pb.List(items=[node])
        tree.change(holder, self._rule)
        return holder.items[0]

    def _rule(self, node: pb.Node) -> pb.Node | None:
        from loader.proposing import aggregates

        kind = node.WhichOneof("node")
        is_call = kind == "func_call" and not node.func_call.HasField("over")
        if is_call and self.book.catalog.is_aggregate(tree.called(node.func_call)):
            return aggregates.put_together(self, node.func_call)
        if kind == "sub_link":
            return self._sub_link(node)
        if kind not in _EXPRESSIONS:
            return None
        if kind == "a_expr" and (bound := grain.compared(self, node)):
            return grain.by_grain(self, *bound)
        # A null row's coalesce(x, 0) is 0: where an outer join gives one, the columns are kept.
        is_strict = not self.is_nullable or kind == "column_ref"
        if is_strict and self.is_own(node) and not self.is_read(node):
            return self.key(node)
        return None

    def _sub_link(self, node: pb.Node) -> pb.Node:
        other = pb.Node()
        other.CopyFrom(node)
        if node.sub_link.HasField("testexpr"):
            other.sub_link.testexpr.CopyFrom(self.outer(node.sub_link.testexpr))
        self.rename(other.sub_link.subselect)
        return other

    def rename(self, message: Message) -> None:
        """Let a query inside this one read the model's columns."""
        for ref, scope in list(scoped_refs(message, self.scope)):
            owner, item, _ = scope.find(ref)
            if owner is self.scope and item and item.alias in self.kept:
                new = self.key(pb.Node(column_ref=ref))
                if new.WhichOneof("node") != "column_ref":
                    raise SettingError(
                        f"{tree.sql(pb.Node(column_ref=ref))} is read in a sub-select, and is no"
                        " type that can be grouped by",
                        "join what the sub-select gives",
                    )
                ref.CopyFrom(new.column_ref)

    def make(self, is_grouped: bool) -> Model:
        """Return the model, after changing the query to read it. Raises SettingError."""
        before = pb.SelectStmt()
        before.CopyFrom(self.select)
        self._find_bounds()
        self._push()
        self._rewrite(is_grouped)
        groups = {tree.sql(one) for one in self.select.group_clause}
        own_keys = {tree.sql(self._named(text)) for text in self.keys}
        if (
            is_grouped
            and self.is_whole
            and not self.has_sets
            and groups == own_keys
            and not self.select.HasField("where_clause")
        ):
            self.select.CopyFrom(before)
            self.pushed, self.is_final = [], True
            self._push()
            self._rewrite(is_grouped)
        return self._model(is_grouped)

    def _named(self, text: str) -> pb.Node:
        name = self.keys[text]
        if text in self.casts:
            return tree.expression(f"({self.alias}.{self._quoted(text)})::{self.casts[text]}")
        return tree.column(self.alias, name)

    def _find_bounds(self) -> None:
        for one in tree.walk(self.select, tree.here(self.select)):
            nodes = tree.conjuncts(one) if isinstance(one, pb.Node) else []
            for node in nodes:
                if bound := grain.compared(self, node):
                    self.bounds.setdefault(tree.sql(bound[0]), []).append(tree.sql(bound[2]))

    def _push(self) -> None:
        """Take the conditions on the kept entries alone into the model."""
        rest = []
        for one in tree.conjuncts(self.select.where_clause):
            if not self.is_nullable and self.is_own(one) and not self.is_read(one):
                self.pushed.append(one)
            else:
                rest.append(one)
        self.select.ClearField("where_clause")
        if rest:
            self.select.where_clause.CopyFrom(tree.all_of(rest))
        if not self.is_whole:
            for join in tree.find(self.select, "join_expr", lambda m: isinstance(m, pb.SubLink)):
                self._push_join(join)

    def _push_join(self, join: pb.JoinExpr) -> None:
        right = {i.alias for i in Scope(self.book, pb.SelectStmt(from_clause=[join.rarg])).items}
        is_ours = join.jointype == pb.JOIN_LEFT and right == self.kept
        if not is_ours and (join.jointype != pb.JOIN_INNER or self.is_nullable):
            return
        parts = tree.conjuncts(join.quals)
        own = [one for one in parts if self.is_own(one) and not self.is_read(one)]
        rest = [one for one in parts if one not in own]
        if own and rest:
            self.pushed += own
            join.quals.CopyFrom(tree.all_of(rest))

    def _rewrite(self, is_grouped: bool) -> None:
        select = self.select
        where = [self.outer(one) for one in tree.conjuncts(select.where_clause)]
        for target in select.target_list:
            own = target.res_target
            if own.val.WhichOneof("node") == "column_ref" and not own.name:
                name = tree.names(own.val.column_ref)[-1]
                if name == "*":
                    raise SettingError("A star beside an aggregate", "name the columns")
                own.name = name
            own.val.CopyFrom(self.outer(own.val))
        for part in (select.group_clause, select.distinct_clause):
            for node in part:
                if node.WhichOneof("node"):
                    node.CopyFrom(self.outer(node))
        self._rewrite_order()
        for node in select.window_clause:
            node.CopyFrom(self.outer(node))
        if select.HasField("having_clause"):
            having = self.outer(select.having_clause)
            select.having_clause.CopyFrom(having)
            if self.is_final:
                where += tree.conjuncts(having)
                select.ClearField("having_clause")
        self._rewrite_from()
        select.ClearField("where_clause")
        if where:
            select.where_clause.CopyFrom(tree.all_of(where))
        if self.is_final:
            select.ClearField("group_clause")
        elif is_grouped:
            complete_groups(self.scope)

    def _rewrite_order(self) -> None:
        outputs = {target.res_target.name for target in self.select.target_list}
        for node in self.select.sort_clause:
            value = node.sort_by.node
            named = value.WhichOneof("node") == "column_ref" and tree.names(value.column_ref)
            if not (named and len(named) == 1 and named[0] in outputs):
                value.CopyFrom(self.outer(value))

    def _rewrite_from(self) -> None:
        if self.is_whole:
            return
        for node in self.select.from_clause:
            self._rewrite_entry(node)

    def _rewrite_entry(self, node: pb.Node) -> None:
        if node.WhichOneof("node") == "join_expr":
            self._rewrite_entry(node.join_expr.larg)
            self._rewrite_entry(node.join_expr.rarg)
            if node.join_expr.HasField("quals"):
                node.join_expr.quals.CopyFrom(self.outer(node.join_expr.quals))
            for part in node.join_expr.using_clause:
                for item in self.scope.items:
                    if item.alias in self.kept and part.string.sval in item.columns:
                        self.key(tree.column(item.alias, part.string.sval))
        elif node.WhichOneof("node") != "range_var":
            self.rename(node)

    def _model(self, is_grouped: bool) -> Model:
        if not self.keys and self.select.group_clause:
            raise SettingError("The query groups by constants alone", "leave out GROUP BY")
        if not self.keys and not self.is_whole:
            raise SettingError("Nothing ties the rows to the others", "join them by a column")
        if not self.measures:
            self.measures["count(*)"] = self._free("row_count", False)
        columns = {**self.keys, **self.measures}
        listed = [f"{text} as {tree.sql(tree.column(name))}" for text, name in columns.items()]
        text = f"select {', '.join(listed)} from {self.inputs}"
        if self.pushed:
            text += f" where {tree.sql(tree.all_of(self.pushed))}"
        if self.keys:
            text += f" group by {', '.join(str(n + 1) for n in range(len(self.keys)))}"
        # As the parser has it, so that what is the same has one text.
        text = tree.statement(tree.parse(text)[0])
        model = Model(
            self.name,
            text,
            tuple(columns.values()),
            meanings={name: text for text, name in columns.items()},
            grains={
                self.keys[text]: grain
                for text, grain in {**self.kept_grains, **self.grains}.items()
                if text in self.keys
            },
        )
        mark = self.book.model(model)
        entry = pb.Node(range_var=pb.RangeVar(relname=mark, inh=True, relpersistence="p"))
        entry.range_var.alias.aliasname = self.alias
        if self.is_whole:
            del self.select.from_clause[:]
            self.select.from_clause.append(entry)
        else:
            next(i for i in self.scope.items if i.alias in self.kept).node.CopyFrom(entry)
        return self.book.models[int(mark.rpartition("_")[2])]


def complete_groups(scope: Scope) -> None:
    """Group by what the selected columns are, where a primary key stood for all of them."""
    select = scope.select
    if not select.group_clause:
        return
    groups = {tree.sql(node) for node in select.group_clause}
    missing: dict[str, pb.Node] = {}

    def one(message: Message) -> None:
        if isinstance(message, pb.Node) and message.WhichOneof("node"):
            if tree.sql_of_value(message) in groups:
                return
            kind = message.WhichOneof("node")
            if kind == "func_call" and scope.book.catalog.is_aggregate(
                tree.called(message.func_call)
            ):
                if not message.func_call.HasField("over"):
                    return
                for part in (*message.func_call.args, pb.Node(window_def=message.func_call.over)):
                    one(part)
                return
            if kind == "sub_link":
                for ref, inner in scoped_refs(message.sub_link.subselect, scope):
                    if inner.find(ref)[0] is scope:
                        missing.setdefault(
                            tree.sql(pb.Node(column_ref=ref)), pb.Node(column_ref=ref)
                        )
                if message.sub_link.HasField("testexpr"):
                    one(message.sub_link.testexpr)
                return
            if kind == "column_ref" and tree.names(message.column_ref)[-1] != "*":
                missing.setdefault(tree.sql(message), message)
                return
        for child in tree.children(message):
            one(child)

    outputs = {target.res_target.name for target in select.target_list}
    for target in select.target_list:
        one(target.res_target.val)
    if select.HasField("having_clause"):
        one(select.having_clause)
    for node in select.sort_clause:
        value = node.sort_by.node
        if not (
            value.WhichOneof("node") == "column_ref" and tree.names(value.column_ref)[-1] in outputs
        ):
            one(value)
    for text, node in missing.items():
        owner, item, _ = scope.find(node.column_ref)
        if text not in groups and (owner is None or item is not None or owner is scope):
            copied = pb.Node()
            copied.CopyFrom(node)
            select.group_clause.append(copied)
            groups.add(text)
