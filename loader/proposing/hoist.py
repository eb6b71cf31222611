"""A condition on a parameter inside a sub-select of FROM moves out of it."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.prepare import is_plain
from loader.proposing.reading import is_read
from loader.proposing.scope import Scope


def raise_conditions(scope: Scope) -> None:
    """Move conditions that need a parameter or the clock to the query around their sub-select."""
    select = scope.select
    if tree.has_star(select):
        return
    for item in scope.items:
        if item.kind != "query" or item.is_nullable:
            continue
        if not is_plain(scope.book, item.query):
            continue
        moved = [_taken(scope, arm, item.alias) for arm in tree.arms(item.query)]
        texts = [[tree.sql(one) for one in conditions] for conditions, _, _ in moved]
        if not texts[0] or any(text != texts[0] for text in texts):
            continue
        for (_, rest, columns), arm in zip(moved, tree.arms(item.query), strict=True):
            tree.set_where(arm, rest)
            for name, text in columns.items():
                tree.add_column(arm, name, text)
        tree.set_where(select, [*tree.conjuncts(select.where_clause), *moved[0][0]])


def _taken(
    scope: Scope, arm: pb.SelectStmt, alias: str
) -> tuple[list[pb.Node], list[pb.Node], dict[str, str]]:
    """Return the conditions to move, those that stay, and the columns that the former need."""
    moved: list[pb.Node] = []
    rest: list[pb.Node] = []
    columns: dict[str, str] = {}

    def one(node: pb.Node) -> pb.Node | None:
        if not node.HasField("column_ref"):
            return None
        text = tree.sql(node)
        known = {value: name for name, value in columns.items()}
        name = known.get(text) or f"asked_{len(columns) + 1}"
        columns[name] = text
        return tree.column(alias, name)

    for condition in tree.conjuncts(arm.where_clause):
        if is_read(scope.book, condition) and tree.find(condition, pb.ColumnRef):
            moved.append(tree.changed(condition, one))
        else:
            rest.append(condition)
    return moved, rest, columns
