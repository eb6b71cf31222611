"""Entries of FROM become a model: what is asked of their rows is its keys and sums."""

from __future__ import annotations

from copy import deepcopy

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import aggregates, grain, tree
from loader.proposing.book import Model
from loader.proposing.groups import complete_groups, place_in_index, sorted_by
from loader.proposing.kept import Kept
from loader.proposing.reading import is_aggregate
from loader.proposing.scope import Scope, scoped_refs
from waltally.errors import SettingError

_EXPRESSIONS = (
    "column_ref", "a_expr", "bool_expr", "func_call", "type_cast", "case_expr", "coalesce_expr",
    "null_test", "boolean_test", "a_indirection", "min_max_expr", "a_array_expr", "collate_clause",
)  # fmt: skip


class Keep(Kept):
    """Writes a model over some entries of FROM, and the query over it."""

    def _rule(self, node: pb.Node) -> pb.Node | None:
        kind = node.WhichOneof("node")
        if is_aggregate(self.book, node.func_call):
            return aggregates.put_together(self, node.func_call)
        if kind == "sub_link":
            return self._sub_link(node)
        if kind not in _EXPRESSIONS:
            return None
        if kind == "a_expr" and (bound := grain.compared(self, node)):
            return grain.by_grain(self, *bound)
        # A null row's coalesce(x, 0) is 0: where an outer join gives one, the columns are kept, and
        # texts of them: a kept column has one spelling, and 1.50::text another one than 1.5::text.
        is_kept = self.is_own(node) and (not self.is_nullable or self._is_strict(node))
        return self.key(node) if is_kept else None

    def _is_strict(self, node: pb.Node) -> bool:
        """Return whether an expression is null where its columns are."""
        if node.HasField("type_cast"):
            return self._is_strict(node.type_cast.arg)
        expr = node.a_expr
        if [part.string.sval for part in expr.name] == ["||"]:
            is_text = self.type_of(tree.sql(node)) == "text"
            return is_text and (self._is_strict(expr.lexpr) or self._is_strict(expr.rexpr))
        return bool(node.HasField("column_ref"))

    def _sub_link(self, node: pb.Node) -> pb.Node:
        other = deepcopy(node)
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
                if not new.HasField("column_ref"):
                    raise SettingError(
                        f"{tree.sql(pb.Node(column_ref=ref))} is read in a sub-select, and is no"
                        " type that can be grouped by",
                        "join what the sub-select gives",
                    )
                ref.CopyFrom(new.column_ref)

    def make(self, is_grouped: bool) -> None:
        """Note the model, and change the query to read it. Raises SettingError."""
        self._push()
        self._find_bounds()
        before = deepcopy(self.select)
        self._rewrite(is_grouped)
        groups = {tree.sql(one) for one in self.select.group_clause}
        own_keys = {tree.sql(tree.column(self.alias, name)) for name in self.keys.values()}
        has_where = self.select.HasField("where_clause")
        is_summed = not self.is_whole or self.has_sets or has_where or groups != own_keys
        self.is_final = is_grouped and not is_summed
        if not self.is_final:
            self.derived = grain.derived(self)
            self.keys = {key: name for key, name in self.keys.items() if key not in self.derived}
        if known := self._of_same_groups():
            columns = {text: name for name, text in known.meanings.items()}
            self.keys = {text: name for text, name in columns.items() if text in self.keys}
            self.measures = {text: name for text, name in columns.items() if text not in self.keys}
        if self.is_final or known or self.derived:
            self.select.CopyFrom(before)
            self.scope = self.scope.again()
            self._rewrite(is_grouped)
        self._note_model()

    def _grouped(self) -> tuple[str, frozenset[str]]:
        where = f" where {tree.sql(tree.all_of(self.pushed))}" if self.pushed else ""
        return f"{self.inputs}{where}", frozenset(self.keys)

    def _of_same_groups(self) -> Model | None:
        """Return a model that has the same groups of the same rows, whose columns to widen."""
        joined = {name: text for text, name in self.keys.items() if name in self.joined_by}
        grouped = self._grouped()
        for one in self.book.models:
            if one.grouped == grouped and joined.items() <= one.meanings.items():
                return one
        return None

    def _push(self) -> None:
        """Take the conditions on the kept entries alone into the model."""
        rest: list[pb.Node] = []
        for one in tree.conjuncts(self.select.where_clause):
            is_pushed = not self.is_nullable and self.is_own(one)
            (self.pushed if is_pushed else rest).append(one)
        tree.set_where(self.select, rest)
        if not self.is_whole:
            for join in tree.find(
                self.select, pb.JoinExpr, lambda message: isinstance(message, pb.SubLink)
            ):
                self._push_join(join)

    def _find_bounds(self) -> None:
        for one in tree.find(self.select, pb.Node, tree.here(self.select)):
            for node in tree.conjuncts(one):
                if bound := grain.compared(self, node):
                    self.bounds.setdefault(tree.sql(bound[0]), []).append(tree.sql(bound[2]))

    def _push_join(self, join: pb.JoinExpr) -> None:
        right = {i.alias for i in Scope(self.book, pb.SelectStmt(from_clause=[join.rarg])).items}
        is_ours = join.jointype == pb.JOIN_LEFT and right == self.kept
        if not is_ours and (join.jointype != pb.JOIN_INNER or self.is_nullable):
            return
        parts = tree.conjuncts(join.quals)
        own = [one for one in parts if self.is_own(one)]
        rest = [one for one in parts if one not in own]
        if own and rest:
            self.pushed += own
            join.quals.CopyFrom(tree.all_of(rest))

    def _rewrite(self, is_grouped: bool) -> None:
        select = self.select
        where = [self.outer(one) for one in tree.conjuncts(select.where_clause)]
        for target in select.target_list:
            own = target.res_target
            if own.val.HasField("column_ref") and not own.name:
                own.name = tree.names(own.val.column_ref)[-1]
                if own.name == "*":
                    raise SettingError("A star beside an aggregate", "name the columns")
            own.val.CopyFrom(self.outer(own.val))
        parts = (select.group_clause, select.distinct_clause, select.window_clause)
        for node in (*(node for part in parts for node in part), *sorted_by(select)):
            node.CopyFrom(self.outer(node))
        if select.HasField("having_clause"):
            having = self.outer(select.having_clause)
            select.having_clause.CopyFrom(having)
            if self.is_final:
                where += tree.conjuncts(having)
                select.ClearField("having_clause")
        for node in () if self.is_whole else select.from_clause:
            self._rewrite_entry(node)
        tree.set_where(select, where)
        if self.is_final:
            select.ClearField("group_clause")
        elif is_grouped:
            complete_groups(self.scope)

    def _rewrite_entry(self, node: pb.Node) -> None:
        if node.HasField("join_expr"):
            join = node.join_expr
            self._rewrite_entry(join.larg)
            self._rewrite_entry(join.rarg)
            if join.HasField("quals"):
                join.quals.CopyFrom(self.outer(join.quals))
            for part in join.using_clause:
                for item in self.scope.items:
                    if item.alias in self.kept and part.string.sval in item.columns:
                        self.key(tree.column(item.alias, part.string.sval))
        elif not node.HasField("range_var"):
            self.rename(node)

    def _note_model(self) -> None:
        if not self.keys and self.select.group_clause:
            raise SettingError("The query groups by constants alone", "leave out GROUP BY")
        if not self.keys and not self.is_whole:
            raise SettingError("Nothing ties the rows to the others", "join them by a column")
        self.keys = dict(
            sorted(
                self.keys.items(), key=lambda key: place_in_index(self.select, self.alias, key[1])
            )
        )
        if not self.measures:
            self.measures["count(*)"] = self.free_name("row_count", False)
        columns = {**self.keys, **self.measures}
        listed = [f"{text} as {tree.sql(tree.column(name))}" for text, name in columns.items()]
        grouped = self._grouped()
        text = f"select {', '.join(listed)} from {grouped[0]}"
        if self.keys:
            text += f" group by {', '.join(str(n + 1) for n in range(len(self.keys)))}"
        model = Model(
            self.name,
            # As the parser has it, so that what is the same has one text.
            tree.statement(tree.parse(text)[0]),
            tuple(columns.values()),
            meanings={name: text for text, name in columns.items()},
            grains={
                self.keys[own]: grain for own, grain in self.grains.items() if own in self.keys
            },
            grouped=grouped,
        )
        alias = pb.Alias(aliasname=self.alias)
        mark = pb.RangeVar(
            relname=self.book.widened(model), inh=True, relpersistence="p", alias=alias
        )
        entry = pb.Node(range_var=mark)
        if self.is_whole:
            del self.select.from_clause[:]
            self.select.from_clause.append(entry)
        else:
            next(i for i in self.scope.items if i.alias in self.kept).node.CopyFrom(entry)
