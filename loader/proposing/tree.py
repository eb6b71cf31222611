"""PostgreSQL's own grammar: from text to a tree and back, and how a tree is walked and changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import postgast
from google.protobuf.message import DecodeError, Message
from postgast import pg_query_pb2 as pb

from waltally.errors import SettingError

_M = TypeVar("_M", bound=Message)
_EMPTY = "select 1"
_CLAUSES = {
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET"),
    *("UNION", "INTERSECT", "EXCEPT"),
}
_JOINS = {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL"}
_INSIDE = {*_JOINS, "OUTER", "DISTINCT", "WITHIN", "ROWS"}
"""Words after which a clause or a join does not begin."""
_VERSION = postgast.parse(_EMPTY).version


def parse(text: str) -> list[pb.SelectStmt]:
    """Return the queries. Raises SettingError."""
    return [one.stmt.select_stmt for one in statements(text)]


def statements(text: str) -> list[pb.RawStmt]:
    """Return the queries with their places; SettingError where one is none, or no SQL."""
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
    return parsed


def expression(text: str) -> pb.Node:
    """Return the tree of an expression."""
    return parse(f"select {text}")[0].target_list[0].res_target.val


def statement(select: pb.SelectStmt) -> str:
    """Return a query as text."""
    whole = pb.RawStmt(stmt=pb.Node(select_stmt=select))
    return str(postgast.deparse(pb.ParseResult(version=_VERSION, stmts=[whole])))


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


def arms(query: pb.SelectStmt) -> list[pb.SelectStmt]:
    """Return the queries between UNION and the like."""
    if query.HasField("larg"):
        return [*arms(query.larg), *arms(query.rarg)]
    return [query]


def called(call: pb.FuncCall) -> str:
    """Return a function's name."""
    return call.funcname[-1].string.sval if call.funcname else ""


def here(select: pb.SelectStmt) -> Callable[[Message], bool]:
    """Return where a walk stops that does not enter queries inside this one."""
    return lambda message: message is not select and isinstance(message, pb.SelectStmt)


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


def add_column(select: pb.SelectStmt, name: str, text: str) -> None:
    """Let a query also select an expression."""
    target = pb.ResTarget(name=name, val=expression(text))
    select.target_list.append(pb.Node(res_target=target))


def column(*parts: str) -> pb.Node:
    """Return a reference to a column."""
    return pb.Node(
        column_ref=pb.ColumnRef(fields=[pb.Node(string=pb.String(sval=p)) for p in parts])
    )


def conjuncts(node: pb.Node) -> list[pb.Node]:
    """Return what a condition joins by AND; BETWEEN is two comparisons."""
    if node.bool_expr.boolop == pb.AND_EXPR:
        return [one for arg in node.bool_expr.args for one in conjuncts(arg)]
    if node.a_expr.kind == pb.AEXPR_BETWEEN:
        value, (low, high) = node.a_expr.lexpr, node.a_expr.rexpr.list.items
        return [compare(value, ">=", low), compare(value, "<=", high)]
    return [node] if node.WhichOneof("node") else []


def compare(left: pb.Node, operator: str, right: pb.Node) -> pb.Node:
    """Return a comparison."""
    name = [pb.Node(string=pb.String(sval=operator))]
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


@dataclass
class _Bracket:
    """What is open: a query, or something else that stays in its line."""

    is_query: bool
    indent: int
    line: int
    """The indent of the line that is being written."""
    clause: str = ""
    is_on: bool = False
    """Whether it is that of DISTINCT ON, after which the first column begins."""


def pretty(text: str) -> str:
    """Return a query of `statement` in lines, with keywords in lower case.

    Its words and their order stay, so that what is written is what was proven.
    """
    raw, parts, end = text.encode(), [], 0
    tokens = postgast.scan(text).tokens
    words = ["", *(raw[token.start : token.end].decode() for token in tokens), ""]
    stack = [_Bracket(True, 0, 0)]
    begins_item = False
    for n, token in enumerate(tokens):
        before, word, after = words[n : n + 3]
        gap = raw[end : token.start].decode()
        end = token.end
        closed = stack.pop() if word == ")" else None
        top = stack[-1]
        is_start = top.is_query and before not in _INSIDE
        begins_item |= top.is_query and word == "AND" and top.clause in ("WHERE", "HAVING")
        if is_start and word in _CLAUSES:
            top.clause = word
            begins_line = n > 0
        elif closed:
            begins_line = closed.is_query
        else:
            begins_line = is_start and word in _JOINS and top.clause == "FROM"
        begins_line |= top.is_query and before == "(" and not closed
        if begins_item or (begins_line and not closed):
            top.line = top.indent + 4 * begins_item
        if begins_item or begins_line:
            gap = "\n" + " " * top.line
        if word == "(":
            is_query = after in ("SELECT", "WITH", "VALUES")
            is_on = [*words[max(n - 1, 0) : n + 1]] == ["DISTINCT", "ON"]
            stack.append(_Bracket(is_query, top.line + 4, top.line + 4, is_on=is_on))
        begins_item = (
            top.is_query
            and top.clause == "SELECT"
            and after not in ("DISTINCT", "ON")
            and (
                word in (",", "SELECT")
                or (before, word) == ("SELECT", "DISTINCT")
                or bool(closed and closed.is_on)
            )
        )
        parts += [gap, word.lower() if re.fullmatch("[A-Z_]+", word) else word]
    return "".join(parts)
