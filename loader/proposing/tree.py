"""PostgreSQL's own grammar: from text to a tree and back, and how a tree is walked and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import postgast
from google.protobuf.message import DecodeError, Message
from postgast import pg_query_pb2 as pb

from waltally.errors import SettingError

_M = TypeVar("_M", bound=Message)

_EMPTY = "select 1"

_VERSION = postgast.parse(_EMPTY).version


def parse(text: str) -> list[pb.SelectStmt]:
    """Return the queries. Raises SettingError where one is none, or no SQL."""
    try:
        parsed = list(postgast.parse(text).stmts)
    except DecodeError:
        raise SettingError(
            "The query has brackets or operators inside one another beyond all measure",
            "write it with fewer levels",
        ) from None
    except postgast.PgQueryError as error:
        raise SettingError(
            f"The query is no SQL that PostgreSQL reads: {error}",
            "give it as the application sends it; parameters may be $1, :name or %(name)s",
        ) from None
    if not parsed or not all(one.stmt.HasField("select_stmt") for one in parsed):
        raise SettingError("The file has something beside SELECT", "leave the queries alone in it")
    return [one.stmt.select_stmt for one in parsed]


def expression(text: str) -> pb.Node:
    """Return the tree of an expression."""
    return parse(f"select {text}")[0].target_list[0].res_target.val


def statement(select: pb.SelectStmt) -> str:
    """Return a query as text."""
    whole = pb.RawStmt(stmt=pb.Node(select_stmt=select))
    return str(postgast.deparse(pb.ParseResult(version=_VERSION, stmts=[whole])))


def spelled(text: str) -> str:
    """Return a query as the grammar writes it, so that what is the same has one text."""
    return statement(parse(text)[0])


def sql(node: pb.Node) -> str:
    """Return an expression as text."""
    holder = parse(_EMPTY)[0]
    holder.target_list[0].res_target.val.CopyFrom(node)
    return statement(holder)[len("select ") :]


def sql_of_value(node: pb.Node) -> str:
    """Return an expression as text; empty for a node that is a part of one."""
    try:
        return sql(node)
    except postgast.PgQueryError:
        return ""


def sources_of(entries: Iterable[pb.Node]) -> str:
    """Return what stands behind FROM, as text."""
    holder = parse(_EMPTY)[0]
    holder.from_clause.extend(entries)
    return statement(holder)[len("select 1 from ") :]


def children(message: Message) -> Iterator[Message]:
    """Yield what is directly below, in order."""
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        yield from value if field.is_repeated else [value]


def walk(message: Message, stop: Callable[[Message], bool] = lambda _: False) -> Iterator[Message]:
    """Yield the message and all below it, but nothing below one at which `stop` is true."""
    # No recursion: each of 8,000 conditions would be handed up through all generators above.
    left = [message]
    while left:
        one = left.pop()
        yield one
        if not stop(one):
            left += [*children(one)][::-1]


def find(
    message: Message, kind: type[_M], stop: Callable[[Message], bool] = lambda _: False
) -> list[_M]:
    """Return what is of a kind."""
    return [one for one in walk(message, stop) if isinstance(one, kind)]


def change(message: Message, rule: Callable[[pb.Node], pb.Node | None]) -> None:
    """Replace each node for which the rule has another one; what is replaced is not entered."""
    for child in list(children(message)):
        if isinstance(child, pb.Node) and (other := rule(child)) is not None:
            child.CopyFrom(other)
        else:
            change(child, rule)


def changed(node: pb.Node, rule: Callable[[pb.Node], pb.Node | None]) -> pb.Node:
    """Return a copy of an expression, itself or what is in it replaced as by `change`."""
    holder = pb.List(items=[node])
    change(holder, rule)
    return holder.items[0]


def with_columns(node: pb.Node, rule: Callable[[pb.Node], pb.Node | None]) -> pb.Node:
    """Return a copy of an expression, its columns replaced."""
    return changed(node, lambda one: rule(one) if one.HasField("column_ref") else None)


def copied(message: _M) -> _M:
    """Return a copy."""
    other: _M = type(message)()
    other.CopyFrom(message)
    return other


def arms(query: pb.SelectStmt) -> list[pb.SelectStmt]:
    """Return the queries between UNION and the like."""
    if query.HasField("larg"):
        return [*arms(query.larg), *arms(query.rarg)]
    return [query]


def called(call: pb.FuncCall) -> str:
    """Return a function's name."""
    return call.funcname[-1].string.sval if call.funcname else ""


def own(select: pb.SelectStmt, kind: type[_M]) -> list[_M]:
    """Return what is of a kind in a query itself, and not in one inside it."""
    return find(select, kind, lambda one: one is not select and isinstance(one, pb.SelectStmt))


def calls(select: pb.SelectStmt) -> list[pb.FuncCall]:
    """Return the functions that a query itself calls."""
    return own(select, pb.FuncCall)


def has_windows(select: pb.SelectStmt) -> bool:
    """Return whether a query itself has windows."""
    return any(call.HasField("over") for call in calls(select))


def is_distinct_on(select: pb.SelectStmt) -> bool:
    """Return whether a query is DISTINCT ON."""
    return bool(select.distinct_clause and select.distinct_clause[0].WhichOneof("node"))


def conditions(select: pb.SelectStmt) -> list[pb.Node]:
    """Return what a query itself says in WHERE and ON."""
    quals = (select.where_clause, *(join.quals for join in own(select, pb.JoinExpr)))
    return [one for each in quals for one in conjuncts(each)]


def names(ref: pb.ColumnRef) -> list[str]:
    """Return the parts of a column's name; a star is `*`."""
    return [part.string.sval or "*" for part in ref.fields]


def has_star(select: pb.SelectStmt) -> bool:
    """Return whether a star is among what is selected."""
    listed = pb.List(items=select.target_list)
    return any("*" in names(ref) for ref in find(listed, pb.ColumnRef))


def is_output(select: pb.SelectStmt, sorted_by: pb.Node) -> bool:
    """Return whether ORDER BY names a selected column."""
    return names(sorted_by.column_ref) in [[one.res_target.name] for one in select.target_list]


def add_column(select: pb.SelectStmt, name: str, value: pb.Node | str) -> None:
    """Let a query also select an expression."""
    node = expression(value) if isinstance(value, str) else value
    select.target_list.append(pb.Node(res_target=pb.ResTarget(name=name, val=node)))


def words(*parts: str) -> list[pb.Node]:
    """Return the parts of a name."""
    return [pb.Node(string=pb.String(sval=part)) for part in parts]


def column(*parts: str) -> pb.Node:
    """Return a reference to a column."""
    return pb.Node(column_ref=pb.ColumnRef(fields=words(*parts)))


def column_name(node: pb.Node) -> str:
    """Return a column's name without its table's; empty for another expression."""
    return names(node.column_ref)[-1] if node.HasField("column_ref") else ""


def without_casts(node: pb.Node) -> pb.Node:
    """Return what an expression casts, once or several times."""
    while node.HasField("type_cast"):
        node = node.type_cast.arg
    return node


def entry(mark: str, alias: str) -> pb.Node:
    """Return an entry of FROM."""
    named = pb.Alias(aliasname=alias)
    var = pb.RangeVar(relname=mark, inh=True, relpersistence="p", alias=named)
    return pb.Node(range_var=var)


def conjuncts(node: pb.Node) -> list[pb.Node]:
    """Return what a condition joins by AND; BETWEEN is two comparisons."""
    if node.bool_expr.boolop == pb.AND_EXPR:
        return [one for arg in node.bool_expr.args for one in conjuncts(arg)]
    if node.a_expr.kind == pb.AEXPR_BETWEEN:
        value, (low, high) = node.a_expr.lexpr, node.a_expr.rexpr.list.items
        return [compare(value, ">=", low), compare(value, "<=", high)]
    return [node] if node.WhichOneof("node") else []


def subselect(query: pb.SelectStmt, alias: str) -> pb.Node:
    """Return a query as an entry of FROM."""
    sub = pb.RangeSubselect(subquery=pb.Node(select_stmt=query), alias=pb.Alias(aliasname=alias))
    return pb.Node(range_subselect=sub)


def clear_limit(select: pb.SelectStmt) -> None:
    """Let a query give all rows, in no order but that of DISTINCT ON."""
    order = [] if is_distinct_on(select) else ["sort_clause"]
    for part in ("limit_count", "limit_offset", *order):
        select.ClearField(part)
    select.limit_option = pb.LIMIT_OPTION_DEFAULT


def compare(left: pb.Node, operator: str, right: pb.Node) -> pb.Node:
    """Return a comparison."""
    name = words(operator)
    return pb.Node(a_expr=pb.A_Expr(kind=pb.AEXPR_OP, name=name, lexpr=left, rexpr=right))


def equal_sides(condition: pb.Node) -> Iterator[tuple[pb.Node, pb.Node]]:
    """Yield what a condition compares by =, either side first; nothing for another condition."""
    expr = condition.a_expr
    if expr.kind == pb.AEXPR_OP and [one.string.sval for one in expr.name] == ["="]:
        yield expr.lexpr, expr.rexpr
        yield expr.rexpr, expr.lexpr


def all_of(conditions: list[pb.Node]) -> pb.Node:
    """Return the condition that all hold; without any, an empty node."""
    if len(conditions) < 2:
        return conditions[0] if conditions else pb.Node()
    return pb.Node(bool_expr=pb.BoolExpr(boolop=pb.AND_EXPR, args=conditions))


def set_where(select: pb.SelectStmt, conditions: list[pb.Node]) -> None:
    """Let the query ask for the rows for which all conditions hold."""
    where = all_of(conditions)
    select.ClearField("where_clause")
    if conditions:
        select.where_clause.CopyFrom(where)


def add_conditions(select: pb.SelectStmt, conditions: list[pb.Node]) -> None:
    """Let the query ask for the rows for which these conditions hold too."""
    set_where(select, [*conjuncts(select.where_clause), *conditions])
