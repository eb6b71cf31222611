"""A model's table has enums as texts."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book
from loader.proposing.prepare import replace_entry
from loader.proposing.scope import Scope, scoped_refs


def read_back(book: Book, select: pb.SelectStmt) -> None:
    """Let the query over models read their enums as those of its own tables were."""
    entries: dict[int, tuple[pb.Node, set[str]]] = {}
    for ref, scope in scoped_refs(select, Scope(book, pb.SelectStmt())):
        _, item, name = scope.find(ref)
        if item and item.kind == "model":
            entries.setdefault(id(item.node), (item.node, set()))[1].add(name)
    for node, read in entries.values():
        mark = node.range_var.relname
        types = dict(book.columns(f"select * from {mark}"))
        if any("." in types[name] for name in read):
            listed = (
                f"{own}::{type_} as {own}" if "." in type_ and name in read else own
                for name, type_ in types.items()
                for own in (tree.sql(tree.column(name)),)
            )
            replace_entry(node, tree.parse(f"select {', '.join(listed)} from {mark}")[0], [])
