"""What a query groups and sorts by, and in which order an index has it."""

from __future__ import annotations

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.reading import is_aggregate
from loader.proposing.scope import Scope, scoped_refs


def place_in_index(select: pb.SelectStmt, alias: str, name: str) -> int:
    """Return the place of a model's key in its index: first what is asked for by one value."""
    joins = tree.find(select, pb.JoinExpr, tree.here(select))
    places = [3]
    for quals in (select.where_clause, *(join.quals for join in joins)):
        for node in tree.conjuncts(quals):
            for one in tree.find(node, pb.A_Expr):
                refs = [tree.find(side, pb.ColumnRef) for side in (one.lexpr, one.rexpr)]
                sides = [[tree.names(ref) for ref in side] for side in refs]
                sign = one.name[-1].string.sval
                if [[alias, name]] not in sides or sign == "<>":
                    continue
                is_one = node.a_expr == one and sign == "="
                places.append((0 if [] in sides else 1) if is_one else 2)
    return min(places)


def sorted_by(select: pb.SelectStmt) -> list[pb.Node]:
    """Return what ORDER BY sorts by, without the names of selected columns."""
    values = [node.sort_by.node for node in select.sort_clause]
    return [value for value in values if not tree.is_output(select, value)]


def complete_groups(scope: Scope) -> None:
    """Group by what the selected columns are, where a primary key stood for all of them."""
    select = scope.select
    groups = {tree.sql(node) for node in select.group_clause}
    if not groups:
        return

    def is_grouped(message: Message, inner: Scope) -> bool:
        """Whether it is a group, or an aggregate of this query: also one that stands inside."""
        if not isinstance(message, pb.Node):
            return False
        is_summed = is_aggregate(scope.book, message.func_call)
        if inner is not scope:
            return is_summed and all(item for item, _ in scope.refs(message))
        return is_summed or tree.sql_of_value(message) in groups

    for part in (
        *(target.res_target.val for target in select.target_list),
        *(select.having_clause, *sorted_by(select)),
    ):
        for ref, inner in scoped_refs(part, scope, is_grouped):
            node = pb.Node(column_ref=ref)
            owner = inner.find(ref)[0]
            is_ours = owner is scope or (owner is None and inner is scope)
            if is_ours and tree.names(ref)[-1] != "*" and tree.sql(node) not in groups:
                select.group_clause.append(node)
                groups.add(tree.sql(node))
