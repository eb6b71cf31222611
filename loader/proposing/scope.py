"""What stands in FROM, and which of it a column belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Model
from loader.proposing.catalog import Relation


@dataclass
class Item:
    """One entry of FROM."""

    alias: str
    columns: tuple[str, ...]
    node: pb.Node
    kind: str
    """table, model, query (a sub-select), cte, function or other."""
    relation: Relation | None = None
    is_nullable: bool = False
    """Whether an outer join may give a row of nulls in its place."""

    @property
    def query(self) -> pb.SelectStmt:
        """The sub-select."""
        return self.node.range_subselect.subquery.select_stmt


@dataclass
class Scope:
    """A query's FROM, inside those of the queries around it."""

    book: Book
    select: pb.SelectStmt
    outer: Scope | None = None
    ctes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = [item for node in self.select.from_clause for item in self._items(node, False)]

    def _items(self, node: pb.Node, is_nullable: bool) -> Iterator[Item]:
        if node.HasField("join_expr"):
            join = node.join_expr
            left = is_nullable or join.jointype in (pb.JOIN_RIGHT, pb.JOIN_FULL)
            right = is_nullable or join.jointype in (pb.JOIN_LEFT, pb.JOIN_FULL)
            yield from self._items(join.larg, left)
            yield from self._items(join.rarg, right)
            return
        kind, columns, relation = self._shape(node)
        alias, named = alias_of(node)
        yield Item(alias, (*named, *columns[len(named) :]), node, kind, relation, is_nullable)

    def _shape(self, node: pb.Node) -> tuple[str, tuple[str, ...], Relation | None]:
        if node.HasField("range_var"):
            marked = self.book.marked(node.range_var.relname)
            if isinstance(marked, Relation):
                return "table", marked.columns, marked
            if isinstance(marked, Model):
                return "model", marked.columns, None
            return "cte", self.ctes.get(node.range_var.relname, ()), None
        if node.HasField("range_subselect"):
            query = node.range_subselect.subquery.select_stmt
            kind = "other" if query.values_lists else "query"
            return kind, tuple(columns_of(self.book, query, self.ctes)), None
        alias, _ = alias_of(node)
        return "function", (alias,), None

    def find(self, ref: pb.ColumnRef) -> tuple[Scope | None, Item | None, str]:
        """Return whose column it is, in which query; None where it is nobody's."""
        *qualified, name = tree.names(ref)
        for item in self.items:
            if item.alias == qualified[-1] if qualified else name in item.columns:
                return self, item, name
        # It may be a column of a function, whose names nobody knows here.
        if not qualified and any(item.kind == "function" for item in self.items):
            return self, None, name
        return self.outer.find(ref) if self.outer else (None, None, name)

    def refs(self, message: Message) -> list[tuple[Item | None, str]]:
        """Return the columns of this query that an expression reads; None for another's."""
        found = []
        for ref, scope in scoped_refs(message, self):
            owner, item, name = scope.find(ref)
            if owner is self:
                found.append((item, name))
            elif owner is None or owner.is_around(self):
                found.append((None, name))
        return found

    def is_around(self, other: Scope) -> bool:
        """Return whether the other query stands inside this one."""
        return other.outer is not None and (other.outer is self or self.is_around(other.outer))

    def again(self) -> Scope:
        """Return the scope of the query as it is after a change."""
        return Scope(self.book, self.select, self.outer, self.ctes)

    def inside(self, select: pb.SelectStmt) -> Scope:
        """Return the scope of a query that stands in this one."""
        return Scope(self.book, select, self, self.ctes | named_ctes(self.book, select, self.ctes))


def scoped_refs(
    message: Message,
    scope: Scope,
    stop: Callable[[Message, Scope], bool] = lambda message, scope: False,
) -> Iterator[tuple[pb.ColumnRef, Scope]]:
    """Yield each reference to a column with the innermost query around it; none below a stop."""
    if stop(message, scope):
        return
    if isinstance(message, pb.SelectStmt):
        scope = scope.inside(message)
    if isinstance(message, pb.ColumnRef):
        yield message, scope
    for child in tree.children(message):
        yield from scoped_refs(child, scope, stop)


def alias_of(node: pb.Node) -> tuple[str, tuple[str, ...]]:
    """Return the alias of an entry of FROM, and the names that it gives columns."""
    entry = getattr(node, node.WhichOneof("node") or "")
    alias = entry.alias
    name = alias.aliasname or getattr(entry, "relname", "")
    return name, tuple(part.string.sval for part in alias.colnames)


def name_of(value: pb.Node) -> str:
    """Return the name that PostgreSQL gives a selected expression; empty where it has none."""
    kind = value.WhichOneof("node")
    if kind == "column_ref":
        return tree.names(value.column_ref)[-1]
    if kind == "func_call":
        return tree.called(value.func_call)
    if kind == "type_cast":
        return name_of(value.type_cast.arg) or value.type_cast.type_name.names[-1].string.sval
    if kind == "sub_link" and value.sub_link.sub_link_type == pb.EXPR_SUBLINK:
        target = value.sub_link.subselect.select_stmt.target_list[0].res_target
        return target.name or name_of(target.val)
    plain = {"coalesce_expr": "coalesce", "case_expr": "case"}
    return plain.get(kind or "", "")


def columns_of(
    book: Book, select: pb.SelectStmt, ctes: dict[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield the names of a query's columns."""
    if select.HasField("larg"):
        yield from columns_of(book, select.larg, ctes)
        return
    if select.values_lists:
        yield from (f"column{n + 1}" for n in range(len(select.values_lists[0].list.items)))
        return
    known = ctes | named_ctes(book, select, ctes)
    for target in select.target_list:
        value = target.res_target.val
        if value.HasField("column_ref") and tree.names(value.column_ref)[-1] == "*":
            *of, _ = tree.names(value.column_ref)
            for item in Scope(book, select, None, known).items:
                if not of or item.alias == of[-1]:
                    yield from item.columns
        else:
            yield target.res_target.name or name_of(value)


def named_ctes(
    book: Book, select: pb.SelectStmt, ctes: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the columns of the CTEs that a query begins with."""
    known: dict[str, tuple[str, ...]] = {}
    for entry in select.with_clause.ctes:
        cte = entry.common_table_expr
        named = tuple(part.string.sval for part in cte.aliascolnames)
        own = tuple(columns_of(book, cte.ctequery.select_stmt, ctes | known))
        known[cte.ctename] = named or own
    return known
