"""Which rows of a group come first, by DISTINCT ON, windows or a LIMIT, is asked of one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.scope import Item, Scope, aggregates_of, is_read, name_of


def filters_of(scope: Scope, item: Item) -> list[pb.Node]:
    """Return the conditions of constants on a sub-select's columns: how many rows of a group."""
    return [
        one
        for one in tree.conjuncts(scope.select.where_clause)
        if not item.is_nullable
        and scope.is_own(one, {item.alias})
        and not tree.find(one, pb.SubLink)
    ]


def part_lateral(scope: Scope, item: Item) -> list[pb.Node]:
    """Number the rows of a LATERAL sub-select with a LIMIT, and join them; return which are read.

    It stays as it is where it has more than one table, or its rows are not found by their columns.
    """
    query = item.query
    inner = scope.inside(query)
    limit = query.limit_count.a_const
    if (
        not item.node.range_subselect.lateral
        or [one.kind for one in inner.items] != ["table"]
        or not (limit.HasField("ival") and query.sort_clause)
        or query.HasField("limit_offset")
        or query.limit_option != pb.LIMIT_OPTION_COUNT
        or query.group_clause
        or query.distinct_clause
        or tree.has_star(query)
        or tree.has_windows(query)
        or aggregates_of(scope.plan, query)
    ):
        return []
    (table,) = inner.items
    own: list[pb.Node] = []
    found: list[tuple[pb.Node, pb.Node]] = []
    for condition in tree.conjuncts(query.where_clause):
        if looked_up := inner.lookup(condition, table, {None}):
            found.append(looked_up)
        elif None in inner.aliases(condition):
            return []
        else:
            own.append(condition)
    if not found:
        return []
    number = tree.expression("row_number() over ()")
    conditions = []
    for n, (column, other) in enumerate(found, 1):
        tree.add_column(query, f"asked_{n}", column)
        number.func_call.over.partition_clause.append(column)
        conditions.append(tree.compare(tree.column(item.alias, f"asked_{n}"), "=", other))
    number.func_call.over.order_clause.extend(query.sort_clause)
    tree.add_column(query, "place", number)
    first = tree.compare(tree.column(item.alias, "place"), "<=", pb.Node(a_const=limit))
    conditions.append(first)
    for join in tree.own(scope.select, pb.JoinExpr):
        if join.rarg == item.node and join.jointype == pb.JOIN_LEFT:
            join.quals.CopyFrom(tree.all_of([*tree.conjuncts(join.quals), *conditions]))
            break
    else:
        tree.add_conditions(scope.select, conditions)
    tree.set_where(query, own)
    tree.clear_limit(query)
    item.node.range_subselect.lateral = False
    return [first]


def take_rows_first(scope: Scope, read: Sequence[pb.Node]) -> None:
    """Let a query take rows of one table, as DISTINCT ON or windows say, before it joins parents.

    Only where that gives the same: each row has one row of a parent, or all rows of a group have
    the same one or none. `read`: which of its rows the query around it reads.
    """
    select = scope.select
    is_first, has_windows = tree.is_distinct_on(select), tree.has_windows(select)
    if (
        is_first == has_windows
        or select.group_clause
        or select.window_clause
        or len(scope.items) < 2
        or any(item.kind != "table" for item in scope.items)
        or aggregates_of(scope.plan, select)
        or _has_names(select)
    ):
        return
    windows = [call for call in tree.calls(select) if call.HasField("over")]
    deciding = [*select.distinct_clause, *(pb.Node(func_call=call) for call in windows)]
    if is_first:
        deciding += select.sort_clause
    found = set[str | None]().union(*map(scope.aliases, deciding))
    base = next((item for item in scope.items if {item.alias} == found), None)
    if base is None or base.is_nullable:
        return
    parts = [{*_columns(call.over.partition_clause)} for call in windows]
    apart = _Apart(scope, base, set.intersection(*parts or [{*_columns(select.distinct_clause)}]))
    if apart.is_same():
        apart.take(read)


def _has_names(select: pb.SelectStmt) -> bool:
    """Whether it says more than columns: a star, a sub-select, USING, or a column by its alias."""
    return (
        tree.has_star(select)
        or bool(tree.find(select, pb.SubLink))
        or any(join.using_clause for join in tree.find(select, pb.JoinExpr))
        or any(tree.is_output(select, node.sort_by.node) for node in select.sort_clause)
    )


class _Apart:
    def __init__(self, scope: Scope, base: Item, parts: set[str]) -> None:
        self.scope, self.select, self.base = scope, scope.select, base
        self.parts = parts
        """The table's columns that are the same in a group."""
        where = tree.conjuncts(self.select.where_clause)
        self.inside = [one for one in where if self._is_of(one, {base.alias})]
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
                lookups = [(one, self.scope.lookup(one, item, known)) for one in conditions]
                equal = [one for one, found in lookups if found]
                if not item.has_key([tree.column_name(found[0]) for _, found in lookups if found]):
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
        rest = [one for one in inner if one not in used and one not in self.inside]
        return all(
            self._is_of(one, same, True) and not is_read(self.scope.plan, one) for one in rest
        )

    def _is_of(self, node: pb.Node, aliases: set[str], or_parts: bool = False) -> bool:
        """Return whether an expression reads these entries alone, or the columns of the groups."""
        return all(
            item
            and (item.alias in aliases or (or_parts and item is self.base and name in self.parts))
            for item, name in self.scope.refs(node)
        )

    def take(self, read: Sequence[pb.Node]) -> None:
        """Change the query."""
        select, base = self.select, self.base
        inner = pb.SelectStmt(
            from_clause=[base.node], limit_option=pb.LIMIT_OPTION_DEFAULT, op=pb.SETOP_NONE
        )
        rest = [one for one in tree.conjuncts(select.where_clause) if one not in self.inside]
        tree.set_where(inner, self.inside)
        if tree.is_distinct_on(select):
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
        # They decide which rows of a group are kept.
        for condition in read:
            own_condition = tree.with_columns(
                condition, lambda column: shown.get(tree.column_name(column))
            )
            refs = tree.find(own_condition, pb.ColumnRef)
            if all(tree.names(ref)[-1] in windows.values() for ref in refs):
                rest.append(own_condition)
        tree.set_where(select, rest)
        for name in self.scope.read_columns(base):
            tree.add_column(inner, name, tree.column(base.alias, name))
        for text, name in windows.items():
            tree.add_column(inner, name, text)
        base.node.CopyFrom(tree.subselect(inner, base.alias))


def _columns(nodes: Iterable[pb.Node]) -> list[str]:
    return [name for name in map(tree.column_name, nodes) if name]
