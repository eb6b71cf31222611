"""What EXISTS or IN looks up by a model's key is joined, so that a model can have the answer."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Model, free
from loader.proposing.reading import is_aggregate, is_read
from loader.proposing.scope import Item, Scope, scoped_refs


def join_lookups(scope: Scope) -> bool:
    """Join the models that conditions of WHERE look up; return whether there is one.

    A key finds one row at most, so a join gives each row once; of NOT EXISTS an outer one gives a
    row of nulls.
    """
    select = scope.select
    rest: list[pb.Node] = []
    conditions = tree.conjuncts(select.where_clause)
    for one in conditions:
        is_not = one.bool_expr.boolop == pb.NOT_EXPR
        link = one.bool_expr.args[0].sub_link if is_not else one.sub_link
        is_exists = link.sub_link_type == pb.EXISTS_SUBLINK
        is_in = link.sub_link_type == pb.ANY_SUBLINK and not (is_not or link.oper_name)
        left = _joined(scope.again(), link, is_not) if is_exists or is_in else None
        rest += [one] if left is None else left
    tree.set_where(select, rest)
    return rest != conditions


def _joined(scope: Scope, link: pb.SubLink, is_not: bool) -> list[pb.Node] | None:
    """Join what a condition looks up, and return what is left of it; None if that cannot be."""
    inside = scope.inside(link.subselect.select_stmt)
    query, found = inside.select, _model(inside)
    if found is None:
        return None
    item, model = found
    conditions = tree.conjuncts(query.where_clause)
    if link.HasField("testexpr"):
        # Inside, a name of the query around it could be the model's.
        names = [tree.names(ref) for ref in tree.find(link.testexpr, pb.ColumnRef)]
        if any(name[-2:-1] == [item.alias] or name[0] in item.columns for name in names):
            return None
        value = query.target_list[0].res_target.val
        conditions = [*conditions, tree.compare(link.testexpr, "=", value)]
    keys: set[str] = set()
    around: list[pb.Node] = []
    for one in conditions:
        if tree.find(one, pb.SubLink) or is_read(scope.book, one):
            return None
        sides = [s for s in tree.equal_sides(one) if _is_column(inside, s[0], item)]
        others = [other for _, other in sides if not _reads(inside, other, item)]
        if others:
            keys.add(tree.names(sides[0][0].column_ref)[-1])
            around += others
        elif not all(owner is inside for owner in _owners(inside, one)):
            return None
    if not model.keys or not {*model.keys} <= keys:
        return None
    entry = _entry(scope, inside, around)
    if entry is None:
        return None
    taken = [alias.aliasname for alias in tree.find(scope.select, pb.Alias)]
    if item.alias in taken:
        # Its own.
        taken.remove(item.alias)
    alias = free(item.alias, {*taken, *(other.alias for other in scope.items)})
    for condition in conditions:
        for ref, inner in list(scoped_refs(condition, inside)):
            if inner.find(ref)[0] is inside:
                ref.CopyFrom(tree.column(alias, tree.names(ref)[-1]).column_ref)
    mark = pb.RangeVar(
        relname=item.node.range_var.relname, inh=True, relpersistence="p",
        alias=pb.Alias(aliasname=alias),
    )  # fmt: skip
    join = pb.JoinExpr(
        jointype=pb.JOIN_LEFT if is_not else pb.JOIN_INNER,
        larg=entry, rarg=pb.Node(range_var=mark), quals=tree.all_of(conditions),
    )  # fmt: skip
    entry.CopyFrom(pb.Node(join_expr=join))
    key = tree.sql(tree.column(alias, model.keys[0]))
    return [tree.expression(f"{key} is null")] if is_not else []


def _model(inside: Scope) -> tuple[Item, Model] | None:
    """Return the model whose rows a sub-select looks up, where it does nothing else."""
    query = inside.select
    if [item.kind for item in inside.items] != ["model"]:
        return None
    shaped = (query.group_clause, query.distinct_clause, query.window_clause, query.locking_clause)
    parts = ("having_clause", "limit_count", "limit_offset", "with_clause", "larg")
    calls = tree.find(query, pb.FuncCall)
    if (
        any(shaped)
        or any(map(query.HasField, parts))
        or any(is_aggregate(inside.book, call) or call.HasField("over") for call in calls)
    ):
        return None
    item = inside.items[0]
    model = inside.book.marked(item.node.range_var.relname)
    return (item, model) if isinstance(model, Model) else None


def _owners(inside: Scope, node: pb.Node) -> list[Scope | None]:
    return [inner.find(ref)[0] for ref, inner in scoped_refs(node, inside)]


def _is_column(inside: Scope, node: pb.Node, item: Item) -> bool:
    return node.HasField("column_ref") and inside.find(node.column_ref)[1] is item


def _reads(inside: Scope, node: pb.Node, item: Item) -> bool:
    """Whether an expression reads the model, or nothing."""
    owners = _owners(inside, node)
    return not owners or inside in owners


def _entry(scope: Scope, inside: Scope, nodes: list[pb.Node]) -> pb.Node | None:
    """Return the entry of FROM that has all columns of the query which the join compares."""
    aliases: set[str] = set()
    for node in nodes:
        for ref, inner in scoped_refs(node, inside):
            owner, item, _ = inner.find(ref)
            if owner is not scope or item is None:
                return None
            aliases.add(item.alias)
    for entry in scope.select.from_clause:
        own = {item.alias for item in Scope(scope.book, pb.SelectStmt(from_clause=[entry])).items}
        if aliases <= own:
            return entry
    return None
