"""What stands in FROM, which of it a column belongs to, and what is only known to a reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.catalog import Relation
from loader.proposing.plan import Model, Plan

CLOCKS = (
    "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "age",
)  # fmt: skip

Columns = dict[str, tuple[str, ...]]
"""The columns of CTEs, by name."""


@dataclass
class Item:
    """One entry of FROM."""

    alias: str
    columns: tuple[str, ...]
    node: pb.Node
    kind: str
    """table, model, query (a sub-select), cte, function or other."""
    relation: Relation | None = None
    model: Model | None = None
    is_nullable: bool = False
    """Whether an outer join may give a row of nulls in its place."""

    def has_key(self, columns: Collection[str]) -> bool:
        """Return whether a table's whole primary key, or a model's key, is among these."""
        key = self.relation.key if self.relation else self.model.compiled.keys if self.model else ()
        return bool(key) and {*key} <= {*columns}

    @property
    def query(self) -> pb.SelectStmt:
        """The sub-select."""
        return self.node.range_subselect.subquery.select_stmt


@dataclass
class Scope:
    """A query's FROM, inside those of the queries around it."""

    plan: Plan
    select: pb.SelectStmt
    outer: Scope | None = None
    ctes: Columns = field(default_factory=dict)

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
        alias, named = alias_of(node)
        item = Item(alias, (alias,), node, "function", is_nullable=is_nullable)
        if node.HasField("range_var"):
            mark = node.range_var.relname
            if relation := self.plan.sources.get(mark):
                item.kind, item.columns, item.relation = "table", relation.columns, relation
            elif model := self.plan.models.get(mark):
                item.kind, item.columns, item.model = "model", model.columns, model
            else:
                item.kind, item.columns = "cte", self.ctes.get(mark, ())
        elif node.HasField("range_subselect"):
            item.kind = "other" if item.query.values_lists else "query"
            item.columns = tuple(columns_of(self.plan, item.query, self.ctes))
        item.columns = (*named, *item.columns[len(named) :])
        yield item

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

    def aliases(self, message: Message) -> set[str | None]:
        """Return the entries of FROM that an expression reads; None for another query's."""
        return {item.alias if item else None for item, _ in self.refs(message)}

    def is_own(self, message: Message, aliases: Collection[str]) -> bool:
        """Return whether an expression is of columns of these entries alone."""
        read = self.aliases(message)
        return bool(read) and read <= {*aliases} and not is_read(self.plan, message)

    def lookup(
        self, condition: pb.Node, item: Item, known: Collection[str | None]
    ) -> tuple[pb.Node, pb.Node] | None:
        """Return the entry's column that a condition compares by =, and what it compares it with.

        `known`: the entries which that reads alone, as by `aliases`.
        """
        for own, other in tree.equal_sides(condition):
            if own.HasField("column_ref") and self.find(own.column_ref)[1] is item:
                read = self.aliases(other)
                if read and read <= {*known}:
                    return own, other
        return None

    def is_around(self, other: Scope) -> bool:
        """Return whether the other query stands inside this one."""
        return other.outer is not None and (other.outer is self or self.is_around(other.outer))

    def again(self) -> Scope:
        """Return the scope of the query as it is after a change."""
        return replace(self)

    def copied(self) -> Scope:
        """Return the scope of a copy, with a copy of the plan."""
        return replace(self, plan=self.plan.copied(), select=tree.copied(self.select))

    def take(self, other: Scope) -> None:
        """Let query and plan be as a copy is."""
        self.select.CopyFrom(other.select)
        self.plan.take(other.plan)

    def read_columns(self, item: Item) -> list[str]:
        """Return the columns of an entry that the query reads, itself or in queries inside it."""
        names: dict[str, None] = {}
        for ref, inner in scoped_refs(self.select, replace(self, select=pb.SelectStmt())):
            *qualified, name = tree.names(ref)
            owner, found, _ = inner.find(ref)
            if name == "*" and (not qualified or qualified[-1] == item.alias):
                names |= dict.fromkeys(item.columns)
            elif owner and owner.select is self.select and found and found.alias == item.alias:
                names[name] = None
        for join in tree.find(self.select, pb.JoinExpr):
            names |= dict.fromkeys(part.string.sval for part in join.using_clause)
        return [name for name in names if name in item.columns]

    def inside(self, select: pb.SelectStmt) -> Scope:
        """Return the scope of a query that stands in this one."""
        return Scope(self.plan, select, self, self.ctes | named_ctes(self.plan, select, self.ctes))


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


def columns_of(plan: Plan, select: pb.SelectStmt, ctes: Columns) -> Iterator[str]:
    """Yield the names of a query's columns."""
    if select.HasField("larg"):
        yield from columns_of(plan, select.larg, ctes)
        return
    if select.values_lists:
        yield from (f"column{n + 1}" for n in range(len(select.values_lists[0].list.items)))
        return
    known = ctes | named_ctes(plan, select, ctes)
    for target in select.target_list:
        value = target.res_target.val
        if value.HasField("column_ref") and tree.names(value.column_ref)[-1] == "*":
            *of, _ = tree.names(value.column_ref)
            for item in Scope(plan, select, None, known).items:
                if not of or item.alias == of[-1]:
                    yield from item.columns
        else:
            yield target.res_target.name or name_of(value)


def named_ctes(plan: Plan, select: pb.SelectStmt, ctes: Columns) -> Columns:
    """Return the columns of the CTEs that a query begins with."""
    known: Columns = {}
    for entry in select.with_clause.ctes:
        cte = entry.common_table_expr
        named = tuple(part.string.sval for part in cte.aliascolnames)
        own = tuple(columns_of(plan, cte.ctequery.select_stmt, ctes | known))
        known[cte.ctename] = named or own
    return known


def is_aggregate(plan: Plan, call: pb.FuncCall) -> bool:
    """Return whether a call is an aggregate, and no window."""
    return tree.called(call) in plan.catalog.aggregates and not call.HasField("over")


def is_clock(call: pb.FuncCall) -> bool:
    """Return whether a call's result depends on when it is asked."""
    name = tree.called(call)
    return name in CLOCKS and not (name == "age" and len(call.args) == 2)


def is_read(plan: Plan, message: Message) -> bool:
    """Return whether an expression can only be computed when somebody reads."""
    for one in tree.walk(message):
        if isinstance(one, (pb.ParamRef, pb.SQLValueFunction)):
            return True
        if isinstance(one, pb.SubLink) and tree.find(one, pb.RangeVar):
            return True
        if isinstance(one, pb.FuncCall) and (
            is_clock(one) or one.HasField("over") or tree.called(one) in plan.catalog.aggregates
        ):
            return True
    return False


def aggregates_of(plan: Plan, select: pb.SelectStmt) -> list[pb.FuncCall]:
    """Return the aggregates that a query itself has."""
    return [call for call in tree.calls(select) if is_aggregate(plan, call)]


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
        is_summed = is_aggregate(scope.plan, message.func_call)
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
