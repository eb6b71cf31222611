"""From a file to trees: parameters are numbered, tables marked, views written out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import postgast
from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Parameter
from loader.proposing.reading import is_aggregate
from loader.proposing.refuse import refuse, refuse_names, refuse_writes
from loader.proposing.scope import Scope, alias_of, name_of, named_ctes
from waltally.errors import SettingError
from waltally.tables import quoted

_SENT = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|::|%\((?P<python>\w+)\)s|\$(?P<number>\d+)|(?<![\w:]):(?P<name>[a-z_]\w*)""",
    re.S | re.I,
)
_COMMENT = re.compile(rb"/\*\s*:(\w+)\s*\*/")
_CONSTANTS = {261, 266, 260}  # SCONST, ICONST, FCONST


@dataclass
class Asked:
    """A query of the file."""

    original: str
    """As it was sent, with marks for its tables."""
    select: pb.SelectStmt


def prepare(
    book: Book, text: str, values: dict[str, str], filled_in: tuple[str, ...] = ()
) -> list[Asked]:
    """Return the file's queries. Raises SettingError.

    `filled_in`: the columns that conditions compare with what the application fills in.
    """
    text = _number(book, text.rstrip(), values)
    raw = text.encode()
    named = dict(_named_constants(raw))
    asked = []
    for one in tree.statements(text):
        refuse_writes(one.stmt.select_stmt)
        end = one.stmt_location + one.stmt_len if one.stmt_len else len(raw)
        original = _marked(book, raw, one.stmt.select_stmt, one.stmt_location, end)
        select = one.stmt.select_stmt
        compared = dict(_compared_constants(select))
        book.constants |= {
            name: tree.sql(node)
            for at, (name, node) in compared.items()
            if at not in named and name not in filled_in
        }
        named |= {at: name for at, (name, _) in compared.items() if name in filled_in}
        _set_parameters(book, select, named)
        # A comment may end it.
        original = f"{original.strip()}\n"
        write_out(book, select)
        book.catalog.check(book.plain(original))
        _spell_groups(book, select)
        refuse_names(book, select)
        asked.append(Asked(original, select))
    return asked


def _number(book: Book, text: str, values: dict[str, str]) -> str:
    """Write what the application fills in as $n, and note what $n is."""

    def one(sent: re.Match[str]) -> str:
        name = sent["python"] or sent["number"] or sent["name"]
        known = Parameter(name, values.get(name), sent[0]) if name else None
        return f"${book.parameter(known)}" if known else sent[0]

    numbered = _SENT.sub(one, text)
    if missing := [p.name for p in book.parameters.values() if p.value is None]:
        raise SettingError(
            f"The proof needs a value of {', '.join(missing)}",
            " ".join(f"--value {name}=…" for name in missing) + " gives one that the rows have",
        )
    return numbered


def _named_constants(raw: bytes) -> Iterator[tuple[int, str]]:
    """Yield where constants stand that a comment names: `1 /* :store */`, `(1, 2) /* :ids */`."""
    before: list[tuple[bytes, int, bool]] = []
    for token in postgast.scan(raw.decode()).tokens:
        word = raw[token.start : token.end]
        if (comment := _COMMENT.fullmatch(word)) and before:
            last = len(before) - 1
            first = last
            if before[last][0] == b")":
                first = max(n for n, (text, _, _) in enumerate(before) if text == b"(")
            for _, start, is_constant in before[first:]:
                if is_constant:
                    yield start, comment[1].decode()
        elif not word.startswith((b"/*", b"--")):
            before.append((word, token.start, token.token in _CONSTANTS))


def _set_parameters(book: Book, select: pb.SelectStmt, named: dict[int, str]) -> None:
    """Write named constants of conditions as parameters."""

    def one(node: pb.Node) -> pb.Node | None:
        if not node.HasField("a_const") or node.a_const.location not in named:
            return None
        number = book.parameter(Parameter(named[node.a_const.location], tree.sql(node)))
        return pb.Node(param_ref=pb.ParamRef(number=number))

    for condition in _conditions(select):
        tree.change(condition, one)


def _conditions(select: pb.SelectStmt) -> list[pb.Node]:
    """Return WHERE and ON, here and below."""
    joins = tree.find(select, pb.JoinExpr)
    return [
        *(one.where_clause for one in tree.find(select, pb.SelectStmt)),
        *(j.quals for j in joins),
    ]


def _compared_constants(select: pb.SelectStmt) -> Iterator[tuple[int, tuple[str, pb.Node]]]:
    """Yield each constant that a condition compares with a column: its place, and the column."""
    for condition in _conditions(select):
        for one in tree.find(condition, pb.A_Expr):
            if one.name[-1].string.sval not in ("=", "<", "<=", ">", ">=", "BETWEEN"):
                continue
            for own, other in ((one.lexpr, one.rexpr), (one.rexpr, one.lexpr)):
                if not own.HasField("column_ref") or any(
                    isinstance(part, (pb.ColumnRef, pb.FuncCall, pb.A_Expr, pb.SubLink))
                    for part in tree.walk(other)
                ):
                    continue
                for constant in tree.find(other, pb.A_Const):
                    name = tree.names(own.column_ref)[-1]
                    yield constant.location, (name, pb.Node(a_const=constant))


def _range_vars(message: Message, ctes: set[str]) -> Iterator[pb.Node]:
    """Yield the tables that a query names, without its CTEs."""
    if isinstance(message, pb.WithClause):
        return
    if isinstance(message, pb.SelectStmt):
        named = [entry.common_table_expr for entry in message.with_clause.ctes]
        own = {cte.ctename for cte in named} if message.with_clause.recursive else set()
        for cte in named:
            # Inside a CTE that is not recursive, its own name is a table's.
            yield from _range_vars(cte.ctequery, ctes | own)
            own.add(cte.ctename)
        ctes = ctes | own
    if isinstance(message, pb.Node) and message.HasField("range_var"):
        if message.range_var.schemaname or message.range_var.relname not in ctes:
            yield message
        return
    for child in tree.children(message):
        yield from _range_vars(child, ctes)


def _marked(book: Book, raw: bytes, select: pb.SelectStmt, begin: int, end: int) -> str:
    """Return the text of a query, with marks for its tables, and views as what they are.

    In text and tree a column's name loses its schema.
    """
    tokens = postgast.scan(raw.decode()).tokens
    parts: list[bytes] = []
    at = begin
    qualified = [ref for ref in tree.find(select, pb.ColumnRef) if len(ref.fields) > 2]
    named = [*(node.range_var for node in _range_vars(select, set())), *qualified]
    for var in sorted(named, key=lambda one: one.location):
        inside = [token for token in tokens if token.start >= var.location]
        if isinstance(var, pb.ColumnRef):
            # The table has an alias now, which has no schema.
            parts.append(raw[at : var.location])
            at = inside[2 * len(var.fields) - 4].start
            del var.fields[:-2]
            continue
        length = 3 if var.schemaname else 1
        relation = book.catalog.relation(var.schemaname, var.relname)
        if relation.definition:
            view = relation.definition.rstrip("; \n")
            own = _marked(book, view.encode(), tree.parse(view)[0], 0, len(view.encode()))
            name = f"({own})"
        else:
            name = book.source(relation)
        alias = "" if var.alias.aliasname else f" as {quoted(var.relname)}"
        parts += [raw[at : var.location], f"{name}{alias}".encode()]
        at = inside[length - 1].end
    return b"".join([*parts, raw[at:end]]).decode()


def write_out(book: Book, select: pb.SelectStmt) -> None:
    """Mark tables, write views and plain CTEs out, and name columns."""
    for node in list(_range_vars(select, set())):
        var = node.range_var
        relation = book.catalog.relation(var.schemaname, var.relname)
        if not var.alias.aliasname:
            var.alias.aliasname = var.relname
        if relation.definition:
            view = tree.parse(relation.definition)[0]
            write_out(book, view)
            _spell_groups(book, view)
            replace_entry(node, view, [])
            continue
        var.relname, var.schemaname = book.source(relation), ""
    for part in tree.find(select, pb.SelectStmt):
        refuse(book, part)
        _inline_ctes(book, part)
    for part in tree.find(select, pb.SelectStmt):
        for target in part.target_list:
            own = target.res_target
            if not own.name and not own.val.HasField("column_ref"):
                own.name = name_of(own.val)


def replace_entry(node: pb.Node, query: pb.SelectStmt, columns: list[pb.Node]) -> None:
    """Put a query in the place of an entry of FROM, under its alias."""
    alias, named = alias_of(node)
    sub = pb.RangeSubselect(subquery=pb.Node(select_stmt=query))
    sub.alias.aliasname = alias
    sub.alias.colnames.extend(node.range_var.alias.colnames if named else columns)
    node.CopyFrom(pb.Node(range_subselect=sub))


def is_plain(book: Book, select: pb.SelectStmt) -> bool:
    """Return whether a sub-select only passes rows on, so that a model may have it in FROM."""
    if select.HasField("larg"):
        is_union_all = select.op == pb.SETOP_UNION and select.all
        ends = select.sort_clause or select.limit_count.ByteSize() or select.with_clause.ctes
        arms = (select.larg, select.rarg)
        return is_union_all and not ends and all(is_plain(book, arm) for arm in arms)
    says = (
        *(select.distinct_clause, select.group_clause, select.window_clause),
        *(select.values_lists, select.with_clause.ctes),
    )
    if any(says) or any(
        select.HasField(one) for one in ("having_clause", "limit_count", "limit_offset")
    ):
        return False
    calls = tree.find(select, pb.FuncCall, tree.here(select))
    if any(one.HasField("over") or is_aggregate(book, one) for one in calls):
        return False
    if any(tree.find(sub, pb.RangeVar) for sub in tree.find(select, pb.SubLink)):
        return False
    if not select.from_clause:
        return False
    return all(
        is_plain(book, one.subquery.select_stmt) for one in tree.find(select, pb.RangeSubselect)
    )


def _inline_ctes(book: Book, select: pb.SelectStmt) -> None:
    """Write each CTE that only passes rows on where it is read."""
    for entry in list(select.with_clause.ctes):
        cte = entry.common_table_expr
        if not is_plain(book, cte.ctequery.select_stmt):
            continue
        for node in tree.find(select, pb.Node):
            if (node.range_var.schemaname, node.range_var.relname) == ("", cte.ctename):
                replace_entry(node, cte.ctequery.select_stmt, list(cte.aliascolnames))
        select.with_clause.ctes.remove(entry)
    if not select.with_clause.ctes:
        select.ClearField("with_clause")


def _spell_groups(book: Book, select: pb.SelectStmt) -> None:
    """Write numbers and aliases in GROUP BY as what they mean, here and below."""
    ctes: dict[str, tuple[str, ...]] = {}
    for part in tree.find(select, pb.SelectStmt):
        ctes |= named_ctes(book, part, ctes)
        if not part.group_clause:
            continue
        items = Scope(book, part, None, ctes).items
        targets = [target.res_target for target in part.target_list]
        named = {target.name: target.val for target in reversed(targets) if target.name}
        for node in part.group_clause:
            if node.HasField("a_const") and node.a_const.HasField("ival"):
                node.CopyFrom(targets[node.a_const.ival.ival - 1].val)
            elif node.HasField("column_ref"):
                *qualified, name = tree.names(node.column_ref)
                is_input = any(name in item.columns for item in items)
                if not qualified and not is_input and name in named:
                    node.CopyFrom(named[name])
