"""A table that is only joined is a rows model: its key, and the columns that something reads."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Model
from loader.proposing.catalog import Relation
from loader.proposing.kept import Kept
from loader.proposing.prepare import is_plain
from loader.proposing.scope import Item, Scope, scoped_refs
from waltally.errors import SettingError


def copy_rows(book: Book, scope: Scope) -> None:
    """Let a query read the rows of its tables from rows models. Raises SettingError."""
    scope = scope.again()
    for item in scope.items:
        if item.relation:
            _copy(book, scope, item, item.relation)
        elif item.kind == "query" and is_plain(book, item.query):
            for arm in tree.arms(item.query):
                copy_rows(book, scope.inside(arm))


def _copy(book: Book, scope: Scope, item: Item, relation: Relation) -> None:
    if not relation.key:
        raise SettingError(
            f"{relation.table} has no primary key, so its rows cannot be kept",
            f"give {relation.table} a primary key",
        )
    if str(relation.table) in book.purged:
        raise SettingError(
            f"Deleted rows of {relation.table} stay counted, and their columns would be gone here",
            f"leave out --ignore-deletes {relation.table}",
        )
    select = scope.select
    keep = Kept(scope, [item], "")
    own: list[pb.Node] = []
    rest: list[pb.Node] = []
    for one in tree.conjuncts(select.where_clause):
        is_own = not item.is_nullable and keep.is_own(one)
        (own if is_own and not tree.find(one, pb.SubLink) else rest).append(one)
    if own:
        tree.set_where(select, rest)
    needed = {name for name in _needed(scope, item) if name in item.columns}
    columns = tuple(n for n in relation.columns if n in needed or n in relation.key)
    mark = item.node.range_var.relname
    where = ""
    if own:
        condition = tree.all_of(own)
        for ref in tree.find(condition, pb.ColumnRef):
            ref.CopyFrom(tree.column(tree.names(ref)[-1]).column_ref)
        where = tree.sql(condition)
    name = f"{relation.table.name}_rows"
    if any(known.name == name and known.copied not in ("", mark) for known in book.models):
        name = f"{relation.table.schema}_{name}"
    item.node.range_var.relname = book.model(Model(name, columns=columns, copied=mark, where=where))


def _needed(scope: Scope, item: Item) -> set[str]:
    names: set[str] = set()
    for ref, inner in scoped_refs(
        scope.select, Scope(scope.book, pb.SelectStmt(), scope.outer, scope.ctes)
    ):
        *qualified, name = tree.names(ref)
        if name == "*":
            if not qualified or qualified[-1] == item.alias:
                names |= {*item.columns}
            continue
        owner, found, _ = inner.find(ref)
        if owner and owner.select is scope.select and found and found.alias == item.alias:
            names.add(name)
    for join in tree.find(scope.select, pb.JoinExpr):
        names |= {part.string.sval for part in join.using_clause}
    return names
