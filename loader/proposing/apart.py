"""DISTINCT ON and windows over a table and its parents: rows are taken first, and then joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.latest import has_first, has_windows
from loader.proposing.reading import is_aggregate, is_read
from loader.proposing.scope import Item, Scope, name_of, scoped_refs


def take_rows_first(scope: Scope, read: Sequence[pb.Node]) -> None:
    """Let a query take rows of one table, as DISTINCT ON or windows say, before it joins parents.

    Only where that gives the same: each row has one row of a parent, or all rows of a group have
    the same one or none. `read`: which of its rows the query around it reads.
    """
    select = scope.select
    if has_first(select) == has_windows(select) or select.group_clause or select.window_clause:
        return
    calls = tree.find(select, pb.FuncCall, tree.here(select))
    windows = [call for call in calls if call.HasField("over")]
    if any(is_aggregate(scope.book, call) and call not in windows for call in calls):
        return
    deciding = [*select.distinct_clause, *(pb.Node(func_call=call) for call in windows)]
    if has_first(select):
        deciding += select.sort_clause
    found = {item.alias if item else "" for node in deciding for item, _ in scope.refs(node)}
    base = next((item for item in scope.items if {item.alias} == found), None)
    if base is None or base.is_nullable or any(item.kind != "table" for item in scope.items):
        return
    parts = [
        {*_columns(select.distinct_clause)},
        *({*_columns(call.over.partition_clause)} for call in windows),
    ]
    apart = _Apart(scope, base, set.intersection(*parts[has_windows(select) :]))
    if len(scope.items) > 1 and not _has_names(select) and apart.is_same():
        apart.take(read)


def _has_names(select: pb.SelectStmt) -> bool:
    """Whether it says more than columns: a star, a sub-select, USING, or a column by its alias."""
    joins = tree.find(select, pb.JoinExpr)
    return (
        tree.has_star(select)
        or bool(tree.find(select, pb.SubLink))
        or any(join.using_clause or join.is_natural for join in joins)
        or any(tree.is_output(select, node.sort_by.node) for node in select.sort_clause)
    )


class _Apart:
    def __init__(self, scope: Scope, base: Item, parts: set[str]) -> None:
        self.scope, self.select, self.base = scope, scope.select, base
        self.parts = parts
        """The table's columns that are the same in a group."""
        self.inside: list[pb.Node] = []
        """Conditions on the table alone."""

    def is_same(self) -> bool:
        """Return whether the joins leave the table's groups as they are."""
        inner = tree.conjuncts(self.select.where_clause)
        outer: dict[str, list[pb.Node]] = {}
        for join in tree.find(self.select, pb.JoinExpr):
            if join.jointype == pb.JOIN_INNER:
                inner += tree.conjuncts(join.quals)
            elif join.jointype == pb.JOIN_LEFT and join.rarg.HasField("range_var"):
                alias = next(i.alias for i in self.scope.items if i.node == join.rarg)
                outer[alias] = tree.conjuncts(join.quals)
            else:
                return False
        known, same = {self.base.alias}, set[str]()
        left = [item for item in self.scope.items if item is not self.base]
        used: list[pb.Node] = []
        while left:
            for item in left:
                conditions = outer.get(item.alias, inner)
                equal = [one for one in conditions if self._key(one, item, known)]
                keys = {self._key(one, item, known) for one in equal}
                if not (item.relation and item.relation.key and {*item.relation.key} <= keys):
                    continue
                if all(self._is_of(one, {item.alias, *same}, True) for one in equal):
                    same.add(item.alias)
                elif item.alias not in outer:
                    continue
                if item.alias in outer and not all(
                    one in equal or self._is_of(one, {item.alias}, True) for one in conditions
                ):
                    return False
                known.add(item.alias)
                used += equal
                left.remove(item)
                break
            else:
                return False
        where = tree.conjuncts(self.select.where_clause)
        self.inside = [one for one in where if self._is_of(one, {self.base.alias})]
        rest = [one for one in inner if one not in used and one not in self.inside]
        return all(
            self._is_of(one, same, True) and not is_read(self.scope.book, one) for one in rest
        )

    def _is_of(self, node: pb.Node, aliases: set[str], or_parts: bool = False) -> bool:
        """Return whether an expression reads these entries alone, or the columns of the groups."""
        return all(
            item
            and (item.alias in aliases or (or_parts and item is self.base and name in self.parts))
            for item, name in self.scope.refs(node)
        )

    def _key(self, condition: pb.Node, item: Item, known: set[str]) -> str:
        """Return the column of an entry that is compared with known ones; empty for none."""
        for own, other in tree.equal_sides(condition):
            is_own = own.HasField("column_ref") and self.scope.find(own.column_ref)[1] is item
            refs = self.scope.refs(other)
            if is_own and refs and all(found and found.alias in known for found, _ in refs):
                return tree.names(own.column_ref)[-1]
        return ""

    def take(self, read: Sequence[pb.Node]) -> None:
        """Change the query."""
        select, base = self.select, self.base
        inner = pb.SelectStmt(
            from_clause=[base.node], limit_option=pb.LIMIT_OPTION_DEFAULT, op=pb.SETOP_NONE
        )
        rest = [one for one in tree.conjuncts(select.where_clause) if one not in self.inside]
        tree.set_where(inner, self.inside)
        if has_first(select):
            inner.distinct_clause.extend(select.distinct_clause)
            inner.sort_clause.extend(select.sort_clause)
            del select.distinct_clause[:]
        windows: dict[str, str] = {}

        def one(node: pb.Node) -> pb.Node | None:
            if not node.func_call.HasField("over"):
                return None
            name = windows.setdefault(tree.sql(node), f"window_{len(windows) + 1}")
            return tree.column(base.alias, name)

        for target in select.target_list:
            own = target.res_target
            own.name = own.name or name_of(own.val)
            own.val.CopyFrom(tree.changed(own.val, one))
        for node in select.sort_clause:
            node.CopyFrom(tree.changed(node, one))
        shown = {target.res_target.name: target.res_target.val for target in select.target_list}

        def asked(node: pb.Node) -> pb.Node | None:
            is_column = node.HasField("column_ref")
            return shown.get(tree.names(node.column_ref)[-1]) if is_column else None

        # They decide which rows of a group are kept.
        for condition in (tree.changed(each, asked) for each in read):
            refs = tree.find(condition, pb.ColumnRef)
            if all(tree.names(ref)[-1] in windows.values() for ref in refs):
                rest.append(condition)
        tree.set_where(select, rest)
        for name in self._needed():
            if name in base.columns:
                tree.add_column(inner, name, tree.sql(tree.column(base.alias, name)))
        for text, name in windows.items():
            tree.add_column(inner, name, text)
        entry = pb.RangeSubselect(
            subquery=pb.Node(select_stmt=inner), alias=pb.Alias(aliasname=base.alias)
        )
        base.node.CopyFrom(pb.Node(range_subselect=entry))

    def _needed(self) -> dict[str, None]:
        """Return the table's columns that the query around the taken rows reads."""
        around = Scope(self.scope.book, pb.SelectStmt(), self.scope.outer, self.scope.ctes)
        found = (inner.find(ref) for ref, inner in scoped_refs(self.select, around))
        return dict.fromkeys(n for _, item, n in found if item and item.alias == self.base.alias)


def _columns(nodes: Iterable[pb.Node]) -> list[str]:
    return [tree.names(node.column_ref)[-1] for node in nodes if node.HasField("column_ref")]
