"""Conditions move to where a model can have them: out of a sub-select, or into a join."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import free
from loader.proposing.prepare import is_plain
from loader.proposing.scope import Scope, is_read, scoped_refs


def raise_conditions(scope: Scope) -> None:
    """Move conditions that need a parameter or the clock to the query around their sub-select."""
    if tree.has_star(scope.select):
        return
    for item in scope.items:
        if item.kind != "query" or item.is_nullable or not is_plain(scope.plan, item.query):
            continue
        arms = tree.arms(item.query)
        moved = [_taken(scope, arm, item.alias) for arm in arms]
        texts = [[tree.sql(one) for one in conditions] for conditions, _, _ in moved]
        if not texts[0] or any(text != texts[0] for text in texts):
            continue
        for (_, rest, columns), arm in zip(moved, arms, strict=True):
            tree.set_where(arm, rest)
            for text, name in columns.items():
                tree.add_column(arm, name, text)
        tree.add_conditions(scope.select, moved[0][0])


def _taken(
    scope: Scope, arm: pb.SelectStmt, alias: str
) -> tuple[list[pb.Node], list[pb.Node], dict[str, str]]:
    """Return the conditions to move, those that stay, and by expression the columns for them."""
    moved: list[pb.Node] = []
    rest: list[pb.Node] = []
    columns: dict[str, str] = {}

    def one(node: pb.Node) -> pb.Node:
        name = columns.setdefault(tree.sql(node), f"asked_{len(columns) + 1}")
        return tree.column(alias, name)

    for condition in tree.conjuncts(arm.where_clause):
        if is_read(scope.plan, condition) and tree.find(condition, pb.ColumnRef):
            moved.append(tree.with_columns(condition, one))
        else:
            rest.append(condition)
    return moved, rest, columns


def join_lookups(scope: Scope) -> bool:
    """Join the models that conditions of WHERE look up by their key; return whether there is one.

    A key finds one row at most, so a join gives each row once; of NOT EXISTS an outer one gives a
    row of nulls.
    """
    conditions = tree.conjuncts(scope.select.where_clause)
    rest: list[pb.Node] = []
    for one in conditions:
        is_not = one.bool_expr.boolop == pb.NOT_EXPR
        link = one.bool_expr.args[0].sub_link if is_not else one.sub_link
        is_exists = link.sub_link_type == pb.EXISTS_SUBLINK
        is_in = link.sub_link_type == pb.ANY_SUBLINK and not (is_not or link.oper_name)
        left = _joined(scope.again(), link, is_not) if is_exists or is_in else None
        rest += [one] if left is None else left
    tree.set_where(scope.select, rest)
    return rest != conditions


def _joined(scope: Scope, link: pb.SubLink, is_not: bool) -> list[pb.Node] | None:
    """Join what a condition looks up, and return what is left of it; None if that cannot be."""
    inside = scope.inside(link.subselect.select_stmt)
    if not _is_bare_model(inside):
        return None
    (item,) = inside.items
    conditions = tree.conjuncts(inside.select.where_clause)
    if link.HasField("testexpr"):
        # Inside, a name of the query around it could be the model's.
        names = [tree.names(ref) for ref in tree.find(link.testexpr, pb.ColumnRef)]
        if any(name[-2:-1] == [item.alias] or name[0] in item.columns for name in names):
            return None
        value = inside.select.target_list[0].res_target.val
        conditions.append(tree.compare(link.testexpr, "=", value))
    keys: list[str] = []
    around: list[pb.Node] = []
    for one in conditions:
        if tree.find(one, pb.SubLink) or is_read(scope.plan, one):
            return None
        if found := inside.lookup(one, item, {None}):
            keys.append(tree.column_name(found[0]))
            around.append(found[1])
        elif None in inside.aliases(one):
            return None
    entry = _entry(scope, around) if item.has_key(keys) else None
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
    join = pb.JoinExpr(
        jointype=pb.JOIN_LEFT if is_not else pb.JOIN_INNER,
        larg=entry,
        rarg=tree.entry(item.node.range_var.relname, alias),
        quals=tree.all_of(conditions),
    )
    entry.CopyFrom(pb.Node(join_expr=join))
    key = tree.sql(tree.column(alias, item.model.compiled.keys[0] if item.model else ""))
    return [tree.expression(f"{key} is null")] if is_not else []


def _is_bare_model(inside: Scope) -> bool:
    """Return whether a sub-select looks up rows of one model, and does nothing else."""
    query = inside.select
    return (
        [item.kind for item in inside.items] == ["model"]
        and is_plain(inside.plan, query)
        and not query.HasField("larg")
        and not query.locking_clause
    )


def _entry(scope: Scope, nodes: list[pb.Node]) -> pb.Node | None:
    """Return the entry of FROM that has all columns of the query which the join compares."""
    aliases = set[str | None]().union(*map(scope.aliases, nodes))
    for entry in scope.select.from_clause:
        own = {item.alias for item in Scope(scope.plan, pb.SelectStmt(from_clause=[entry])).items}
        if aliases <= own:
            return entry
    return None
