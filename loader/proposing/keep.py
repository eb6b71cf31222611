"""Entries of FROM become a model: what is asked of their rows is its keys and sums."""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import aggregates, grain, tree
from loader.proposing.kept import INSTEAD, Kept
from loader.proposing.plan import Model
from loader.proposing.scope import (
    Scope,
    complete_groups,
    is_aggregate,
    scoped_refs,
    sorted_by,
)
from waltally.errors import SettingError

_EXPRESSIONS = (
    "column_ref", "a_expr", "bool_expr", "func_call", "type_cast", "case_expr", "coalesce_expr",
    "null_test", "boolean_test", "a_indirection", "min_max_expr", "a_array_expr", "collate_clause",
)  # fmt: skip


class Keep(Kept):
    """Writes a model over some entries of FROM, and the query over it."""

    def _rule(self, node: pb.Node) -> pb.Node | None:
        kind = node.WhichOneof("node")
        if is_aggregate(self.plan, node.func_call):
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
        other = tree.copied(node)
        if node.sub_link.HasField("testexpr"):
            other.sub_link.testexpr.CopyFrom(self.outer(node.sub_link.testexpr))
        self._rename(other.sub_link.subselect)
        return other

    def _rename(self, message: Message) -> None:
        """Let a query inside this one read the model's columns."""
        for ref, scope in list(scoped_refs(message, self.scope)):
            owner, item, _ = scope.find(ref)
            if owner is self.scope and item and item.alias in self.kept:
                node = pb.Node(column_ref=ref)
                new = self.key(node)
                if not new.HasField("column_ref"):
                    raise SettingError(
                        f"{tree.sql(node)} is read in a sub-select, and is no type that can be"
                        " grouped by",
                        "join what the sub-select gives",
                    )
                ref.CopyFrom(new.column_ref)

    def make(self, is_grouped: bool) -> None:
        """Note the model, and change the query to read it. Raises SettingError."""
        pushed = self._take_own_conditions()
        if pushed:
            self.rows += f" where {tree.sql(tree.all_of(pushed))}"
        self.bounds = grain.bounds(self)
        # What a first copy asks for decides how the query is written.
        first = replace(self.scope, select=tree.copied(self.select))
        self._rewrite(first, is_grouped)
        groups = {tree.sql(one) for one in first.select.group_clause}
        own_keys = {tree.sql(tree.column(self.alias, name)) for name in self.keys.values()}
        has_where = first.select.HasField("where_clause")
        is_summed = not self.is_whole or self.has_sets or has_where or groups != own_keys
        self.is_final = is_grouped and not is_summed
        if not self.is_final:
            self.derived = grain.derived(self)
            self.keys = {key: name for key, name in self.keys.items() if key not in self.derived}
        if known := self._of_same_groups():
            columns = {text: name for name, text in known.meanings.items()}
            self.keys = {text: name for text, name in columns.items() if text in self.keys}
            self.measures = {text: name for text, name in columns.items() if text not in self.keys}
        self._rewrite(self.scope, is_grouped)
        self._note_model()

    def require_fewer(self) -> None:
        """Raise SettingError where a fact of one table has a group for each of its rows."""
        (item, *others) = self.items
        keys = {tree.column_name(tree.expression(text)) for text in self.keys}
        if item.relation and item.has_key(keys) and not others:
            raise SettingError(
                f"The query needs each row of {item.relation.table}: only a copy would be kept",
                INSTEAD,
            )

    @property
    def _grouped(self) -> tuple[str, frozenset[str]]:
        return self.rows, frozenset(self.keys)

    def _of_same_groups(self) -> Model | None:
        """Return a model that has the same groups of the same rows, whose columns to widen."""
        joined = {name: text for text, name in self.keys.items() if name in self.joined_by}
        for one in self.plan.models.values():
            if one.grouped == self._grouped and joined.items() <= one.meanings.items():
                return one
        return None

    def _take_own_conditions(self) -> list[pb.Node]:
        """Take the conditions on the kept entries alone out of the query, and return them."""
        own: list[pb.Node] = []
        rest: list[pb.Node] = []
        for one in tree.conjuncts(self.select.where_clause):
            (own if not self.is_nullable and self.is_own(one) else rest).append(one)
        tree.set_where(self.select, rest)
        if not self.is_whole:
            for join in tree.find(
                self.select, pb.JoinExpr, lambda one: isinstance(one, pb.SubLink)
            ):
                own += self._take_from_join(join)
        return own

    def _take_from_join(self, join: pb.JoinExpr) -> list[pb.Node]:
        right = Scope(self.plan, pb.SelectStmt(from_clause=[join.rarg])).items
        is_ours = join.jointype == pb.JOIN_LEFT and {item.alias for item in right} == self.kept
        if not is_ours and (join.jointype != pb.JOIN_INNER or self.is_nullable):
            return []
        parts = tree.conjuncts(join.quals)
        own = [one for one in parts if self.is_own(one)]
        rest = [one for one in parts if one not in own]
        if not own or not rest:
            return []
        join.quals.CopyFrom(tree.all_of(rest))
        return own

    def _rewrite(self, scope: Scope, is_grouped: bool) -> None:
        """Write the query over the model, and note which columns that asks for."""
        select = scope.select
        where = [self.outer(one) for one in tree.conjuncts(select.where_clause)]
        for target in select.target_list:
            own = target.res_target
            own.name = own.name or tree.column_name(own.val)
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
            complete_groups(scope)

    def _rewrite_entry(self, node: pb.Node) -> None:
        if node.HasField("join_expr"):
            join = node.join_expr
            self._rewrite_entry(join.larg)
            self._rewrite_entry(join.rarg)
            if join.HasField("quals"):
                join.quals.CopyFrom(self.outer(join.quals))
            for part in join.using_clause:
                for item in self.items:
                    if part.string.sval in item.columns:
                        self.key(tree.column(item.alias, part.string.sval))
        elif not node.HasField("range_var"):
            self._rename(node)

    def _note_model(self) -> None:
        if not self.keys and self.select.group_clause:
            raise SettingError("The query groups by constants alone", "leave out GROUP BY")
        if not self.keys and not self.is_whole:
            raise SettingError("Nothing ties the rows to the others", "join them by a column")
        ordered = sorted(self.keys.items(), key=lambda key: self._ordinal(key[1]))
        self.keys = dict(ordered)
        if not self.measures:
            self.measures["count(*)"] = self._free_name("row_count", False)
        columns = {**self.keys, **self.measures}
        listed = [f"{text} as {tree.sql(tree.column(name))}" for text, name in columns.items()]
        text = f"select {', '.join(listed)} from {self.rows}"
        if self.keys:
            text += f" group by {', '.join(str(n + 1) for n in range(len(self.keys)))}"
        model = Model(
            self.name,
            tree.spelled(text),
            tuple(columns.values()),
            meanings={name: text for text, name in columns.items()},
            grains={self.keys[text]: own for text, own in self.grains.items() if text in self.keys},
            grouped=self._grouped,
        )
        entry = tree.entry(self.plan.model(model), self.alias)
        if self.is_whole:
            del self.select.from_clause[:]
            self.select.from_clause.append(entry)
        else:
            self.items[0].node.CopyFrom(entry)

    def _ordinal(self, name: str) -> int:
        """Return where a key stands in the model's index: first what is asked for by one value."""
        found = [3]
        for condition in tree.conditions(self.select):
            for one in tree.find(condition, pb.A_Expr):
                refs = [tree.find(side, pb.ColumnRef) for side in (one.lexpr, one.rexpr)]
                sides = [[tree.names(ref) for ref in side] for side in refs]
                sign = one.name[-1].string.sval
                if [[self.alias, name]] not in sides or sign == "<>":
                    continue
                is_one = condition.a_expr == one and sign == "="
                found.append((0 if [] in sides else 1) if is_one else 2)
        return min(found)
