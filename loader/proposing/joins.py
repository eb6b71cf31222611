"""What a query's FROM joins: how many tables, which are parents, and what multiplies rows."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.reading import is_read
from loader.proposing.scope import Scope


def joined_tables(scope: Scope) -> int:
    """Return how many tables are joined; the arms of a UNION ALL over one each are one."""
    return sum(
        max(len(tree.find(arm, pb.RangeVar)) for arm in tree.arms(item.query))
        if item.kind == "query"
        else item.kind in ("table", "model")
        for item in scope.items
    )


def parents(scope: Scope) -> set[str]:
    """Return the entries of which a join finds one row, by the whole primary key."""
    equal: dict[str, set[str]] = {}
    conditions = [join.quals for join in tree.find(scope.select, pb.JoinExpr)]
    for condition in (*conditions, scope.select.where_clause):
        for one in tree.conjuncts(condition):
            if one.HasField("a_expr") and one.a_expr.name[-1].string.sval == "=":
                sides = [scope.refs(side) for side in (one.a_expr.lexpr, one.a_expr.rexpr)]
                for own, other in (sides, sides[::-1]):
                    if len(own) == 1 and own[0][0] and other and own[0][0] is not other[0][0]:
                        equal.setdefault(own[0][0].alias, set()).add(own[0][1])
    return {
        item.alias
        for item in scope.items
        if item.relation
        and item.relation.key
        and {*item.relation.key} <= equal.get(item.alias, set())
    }


def multiplies(scope: Scope) -> bool:
    """Return whether constants in FROM have as many rows as a reader's conditions leave."""
    constants = {item.alias for item in scope.items if item.kind == "other"}
    joins = tree.find(scope.select, pb.JoinExpr, tree.here(scope.select))
    conditions = [scope.select.where_clause, *(join.quals for join in joins)]
    return any(
        is_read(scope.book, one)
        and any(item and item.alias in constants for item, _ in scope.refs(one))
        for condition in conditions
        for one in tree.conjuncts(condition)
    )
