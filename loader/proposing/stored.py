"""A model's table has enums as texts, and numerics without a scale."""

from __future__ import annotations

from collections.abc import Iterator

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book
from loader.proposing.prepare import replace_entry
from loader.proposing.scope import Scope, scoped_refs


def read_back(book: Book, select: pb.SelectStmt) -> None:
    """Let the query over models read their columns as those of its own tables were.

    A numeric that is only compared, grouped or shown stays: the model's index serves it.
    """
    alike = list(_alike(select))
    entries: dict[int, tuple[pb.Node, set[str], set[str]]] = {}
    for ref, scope in scoped_refs(select, Scope(book, pb.SelectStmt())):
        _, item, name = scope.find(ref)
        if item and item.kind == "model":
            _, read, spelled = entries.setdefault(id(item.node), (item.node, set(), set()))
            read.add(name)
            if not any(ref is one for one in alike):
                spelled.add(name)
    for node, read, spelled in entries.values():
        mark = node.range_var.relname
        columns = list(_columns(book, mark, read, spelled))
        if any(own != text for own, text in columns):
            listed = (own if own == text else f"{text} as {own}" for own, text in columns)
            replace_entry(node, tree.parse(f"select {', '.join(listed)} from {mark}")[0], [])


def _columns(book: Book, mark: str, read: set[str], spelled: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each column of a model, and how it is read."""
    for name, type_ in book.catalog.columns(book.plain(f"select * from {mark}"), has_scale=True):
        own = tree.sql(tree.column(name))
        is_enum = "." in type_ and name in read
        if is_enum or (type_.startswith("numeric(") and name in spelled):
            yield own, f"{own}::{type_}"
        else:
            yield own, own


def _alike(select: pb.SelectStmt) -> Iterator[pb.ColumnRef]:
    """Yield the columns where two spellings or orders of values are one."""
    values: list[pb.Node] = [
        target.res_target.val
        for number, target in enumerate(select.target_list, 1)
        if not _is_sorted(select, number, target.res_target.name)
    ]
    for one in tree.walk(select):
        if isinstance(one, pb.A_Expr) and one.name[-1].string.sval in ("=", "<>"):
            values += [one.lexpr, one.rexpr] if one.kind != pb.AEXPR_NULLIF else []
        elif isinstance(one, pb.NullTest):
            values.append(one.arg)
        elif isinstance(one, pb.FuncCall) and tree.called(one) == "count":
            values += one.args
        elif isinstance(one, pb.SelectStmt):
            values += one.group_clause
    yield from (one.column_ref for one in values if one.HasField("column_ref"))


def _is_sorted(select: pb.SelectStmt, number: int, name: str) -> bool:
    """Return whether ORDER BY names a selected column, by its place or its name."""
    by = [node.sort_by.node for node in select.sort_clause]
    return any(
        one.a_const.ival.ival == number or tree.names(one.column_ref) == [name] for one in by
    )
