"""The first rows of each group, and windows over a table's rows, are a roll-up over its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Model, free
from loader.proposing.catalog import Relation
from loader.proposing.reading import is_aggregate, is_read
from loader.proposing.scope import Item, Scope, name_of
from waltally.errors import SettingError

_INSTEAD = "keep the rows that it reads (rows models), and ask the query of them"


def has_windows(select: pb.SelectStmt) -> bool:
    """Return whether a query itself has windows."""
    calls = tree.find(select, pb.FuncCall, tree.here(select))
    return any(call.HasField("over") for call in calls)


def has_first(select: pb.SelectStmt) -> bool:
    """Return whether it is DISTINCT ON."""
    return bool(select.distinct_clause and select.distinct_clause[0].WhichOneof("node"))


def compared(condition: pb.Node) -> pb.Node | None:
    """Return the column that a condition compares with one value that somebody fills in."""
    for own, other in tree.equal_sides(condition):
        if own.HasField("column_ref") and not tree.find(other, pb.ColumnRef):
            return own
    return None


def filters_of(scope: Scope, item: Item) -> list[pb.Node]:
    """Return the conditions of constants on a sub-select's columns: how many rows of a group."""
    if item.is_nullable:
        return []
    return [
        one
        for one in tree.conjuncts(scope.select.where_clause)
        if (refs := scope.refs(one))
        and all(found is item for found, _ in refs)
        and not is_read(scope.book, one)
        and not tree.find(one, pb.SubLink)
    ]


def part_lateral(scope: Scope, item: Item) -> list[pb.Node]:
    """Number the rows of a LATERAL sub-select with a LIMIT, and join them; return which are read.

    It stays as it is where it has more than one table, or its rows are not found by their columns.
    """
    query = item.query
    inner = scope.inside(query)
    limit = query.limit_count.a_const
    if (
        not item.node.range_subselect.lateral
        or [one.kind for one in inner.items] != ["table"]
        or not (limit.HasField("ival") and query.sort_clause)
        or query.HasField("limit_offset")
        or query.limit_option != pb.LIMIT_OPTION_COUNT
        or query.group_clause
        or query.distinct_clause
        or tree.has_star(query)
        or any(
            call.HasField("over") or is_aggregate(scope.book, call)
            for call in tree.find(query, pb.FuncCall, tree.here(query))
        )
    ):
        return []
    own: list[pb.Node] = []
    found: list[tuple[pb.Node, pb.Node]] = []
    for condition in tree.conjuncts(query.where_clause):
        sides = _sides(inner, condition)
        if sides:
            found.append(sides)
        elif all(own_item for own_item, _ in inner.refs(condition)):
            own.append(condition)
        else:
            return []
    if not found:
        return []
    _number(query, [column for column, _ in found])
    tree.set_where(query, own)
    item.node.range_subselect.lateral = False
    first = tree.compare(tree.column(item.alias, "place"), "<=", pb.Node(a_const=limit))
    joined = (
        tree.compare(tree.column(item.alias, f"asked_{n}"), "=", other)
        for n, (_, other) in enumerate(found, 1)
    )
    conditions = [*joined, first]
    for join in tree.find(scope.select, pb.JoinExpr, tree.here(scope.select)):
        if join.rarg == item.node and join.jointype == pb.JOIN_LEFT:
            join.quals.CopyFrom(tree.all_of([*tree.conjuncts(join.quals), *conditions]))
            break
    else:
        where = tree.conjuncts(scope.select.where_clause)
        tree.set_where(scope.select, [*where, *conditions])
    query.ClearField("limit_count")
    query.limit_option = pb.LIMIT_OPTION_DEFAULT
    return [first]


def _sides(inner: Scope, condition: pb.Node) -> tuple[pb.Node, pb.Node] | None:
    """Return a column of a query's own, and what of the queries around it equals the column."""
    for own, other in tree.equal_sides(condition):
        is_own = own.HasField("column_ref") and all(item for item, _ in inner.refs(own))
        refs = [inner.find(ref)[0] for ref in tree.find(other, pb.ColumnRef)]
        if is_own and refs and all(owner is inner.outer for owner in refs):
            return own, other
    return None


def _number(query: pb.SelectStmt, columns: list[pb.Node]) -> None:
    """Let a query select these columns, and the place of a row among those that have them."""
    for n, column in enumerate(columns, 1):
        target = pb.ResTarget(name=f"asked_{n}", val=column)
        query.target_list.append(pb.Node(res_target=target))
    number = tree.expression("row_number() over ()")
    number.func_call.over.partition_clause.extend(columns)
    number.func_call.over.order_clause.extend(query.sort_clause)
    query.target_list.append(pb.Node(res_target=pb.ResTarget(name="place", val=number)))
    del query.sort_clause[:]


class Latest:
    """A model of a query's rows: those of one group decide each other."""

    def __init__(self, scope: Scope, name: str, filters: Sequence[pb.Node]) -> None:
        """Take the scope of a query over one model of rows, which it changes."""
        self.scope, self.book, self.select = scope, scope.book, scope.select
        self.name, self.filters = name, filters
        (self.item,) = scope.items
        self.inner = deepcopy(scope.select)
        self.columns: dict[str, str] = {}
        """By expression, the model's column that has it."""

    def make(self) -> None:
        """Note the model, and change the query to read it. Raises SettingError."""
        shown = self._shown()
        del self.inner.target_list[:]
        listed = [
            f"{self._column(text, name)} as {tree.sql(tree.column(name))}"
            for name, text in shown.items()
        ]
        where = [*self._take_asked()]
        if has_windows(self.select):
            for name in _key(self.book, self.item):
                self._column(tree.sql(tree.column(self.item.alias, name)), name)
        # The model's groups.
        for text in self._parts():
            self._column(text)
        order = [self._sorted(node, [*shown]) for node in self.select.sort_clause]
        for part in (
            "limit_count",
            "limit_offset",
            *([] if has_first(self.select) else ["sort_clause"]),
        ):
            self.inner.ClearField(part)
        self.inner.limit_option = pb.LIMIT_OPTION_DEFAULT
        reads = tree.parse(f"select {', '.join(listed)} from {self.book.model(self._model())}")[0]
        tree.set_where(reads, where)
        reads.sort_clause.extend(order)
        for part in ("limit_count", "limit_offset"):
            if self.select.HasField(part):
                getattr(reads, part).CopyFrom(getattr(self.select, part))
        reads.limit_option = self.select.limit_option
        self.select.CopyFrom(reads)

    def _parts(self) -> list[str]:
        """Return what DISTINCT ON takes one row of, or what every window has in PARTITION BY."""
        windows = tree.find(self.select, pb.WindowDef, tree.here(self.select))
        parted = [own.partition_clause for own in windows if own.partition_clause]
        texts = [[*map(tree.sql, part)] for part in parted or [self.select.distinct_clause]]
        return [text for text in texts[0] if all(text in other for other in texts)]

    def _model(self) -> Model:
        text = tree.statement(self.inner)
        if self.filters:
            where = tree.sql(tree.all_of([tree.changed(one, _bare) for one in self.filters]))
            text = f"select * from ({text}) as ranked where {where}"
        return Model(
            self.name,
            tree.statement(tree.parse(text)[0]),
            tuple(self.columns.values()),
            meanings={name: own for own, name in self.columns.items()},
        )

    def _shown(self) -> dict[str, str]:
        """Return what the query selects, by name."""
        shown: dict[str, str] = {}
        for target in self.select.target_list:
            own = target.res_target
            is_column = own.val.HasField("column_ref")
            if is_column and tree.names(own.val.column_ref)[-1] == "*":
                names = self.item.columns
                shown |= {name: tree.sql(tree.column(self.item.alias, name)) for name in names}
            else:
                shown[own.name or name_of(own.val)] = tree.sql(own.val)
        return shown

    def _column(self, text: str, hint: str = "") -> str:
        """Let the model have an expression, and return its column."""
        node = tree.expression(text)
        if node.HasField("column_ref"):
            text = tree.sql(tree.column(self.item.alias, tree.names(node.column_ref)[-1]))
        if text not in self.columns:
            name = free(hint or name_of(node) or "value", {*self.columns.values()})
            self.columns[text] = name
            self.inner.target_list.append(pb.Node(res_target=pb.ResTarget(name=name, val=node)))
        return tree.sql(tree.column(self.columns[text]))

    def _take_asked(self) -> Iterator[pb.Node]:
        """Yield the conditions on what somebody fills in, over columns that part the groups."""
        rest = []
        for condition in tree.conjuncts(self.select.where_clause):
            if not is_read(self.book, condition) and not tree.find(condition, pb.SubLink):
                rest.append(condition)
                continue
            column = compared(condition)
            if column is None:
                raise SettingError(
                    f"{tree.sql(condition)} decides which row of a group comes first, when somebody"
                    " reads: only copies of the tables would be kept",
                    _INSTEAD,
                )
            self._part_by(column)
            yield self._over_model(condition)
        tree.set_where(self.inner, rest)

    def _over_model(self, condition: pb.Node) -> pb.Node:
        def one(node: pb.Node) -> pb.Node | None:
            is_column = node.HasField("column_ref")
            return tree.expression(self._column(tree.sql(node))) if is_column else None

        return tree.changed(condition, one)

    def _part_by(self, column: pb.Node) -> None:
        if has_first(self.select):
            self.inner.distinct_clause.insert(0, column)
            self.inner.sort_clause.insert(0, pb.Node(sort_by=pb.SortBy(node=column)))
        for window in tree.find(self.inner, pb.WindowDef, tree.here(self.inner)):
            # One that names another one has its PARTITION BY.
            if not window.refname and not (window.name and not window.frame_options):
                window.partition_clause.append(column)

    def _sorted(self, node: pb.Node, shown: list[str]) -> pb.Node:
        """Return what the query over the model sorts by."""
        other = deepcopy(node)
        value = other.sort_by.node
        is_shown = tree.names(value.column_ref) in [[name] for name in shown]
        if not value.HasField("a_const") and not is_shown:
            value.CopyFrom(tree.expression(self._column(tree.sql(value))))
        return other


def _key(book: Book, item: Item) -> tuple[str, ...]:
    model = book.marked(item.node.range_var.relname)
    table = book.marked(model.copied) if isinstance(model, Model) else None
    return table.key if isinstance(table, Relation) else ()


def _bare(node: pb.Node) -> pb.Node | None:
    is_column = node.HasField("column_ref")
    return tree.column(tree.names(node.column_ref)[-1]) if is_column else None
