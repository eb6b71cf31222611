"""From a file to trees: parameters are numbered, tables marked, views written out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import postgast
from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import Parameter, Plan, free
from loader.proposing.refuse import refuse, refuse_names, refuse_writes
from loader.proposing.scope import Scope, aggregates_of, alias_of, name_of, named_ctes
from waltally.errors import SettingError
from waltally.tables import quoted

_SENT = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|::|%\((?P<python>\w+)\)s|\$(?P<number>\d+)|(?<![\w:]):(?P<name>[a-z_]\w*)""",
    re.S | re.I,
)
_COMMENT = re.compile(rb"/\*\s*:(\w+)\s*\*/")
_CONSTANTS = {261, 266, 260}  # SCONST, ICONST, FCONST


@dataclass(frozen=True)
class Asked:
    """A query of the file."""

    original: str
    """As it was sent, with marks for its tables."""
    select: pb.SelectStmt
    """The query, later over models."""


def prepare(
    plan: Plan, text: str, values: dict[str, str], filled_in: tuple[str, ...] = ()
) -> list[Asked]:
    """Return the file's queries. Raises SettingError.

    `filled_in`: the columns that conditions compare with what the application fills in.
    """
    text = _number(plan, text, values)
    tree.parse(text)
    asked = []
    for own in postgast.split(text):
        (select,) = tree.parse(own)
        refuse_writes(select)
        _set_parameters(plan, select, dict(_named_constants(own.encode())), filled_in)
        # A comment may end it.
        original = f"{_marked(plan, own, select)}\n"
        _write_out(plan, select)
        plan.catalog.check(plan.plain(original))
        _spell_groups(plan, select)
        refuse_names(plan, select)
        _name_columns(plan, original, select)
        asked.append(Asked(original, select))
    return asked


def _number(plan: Plan, text: str, values: dict[str, str]) -> str:
    """Write what the application fills in as $n, and note what $n is."""

    def one(sent: re.Match[str]) -> str:
        name = sent["python"] or sent["number"] or sent["name"]
        known = Parameter(name, values.get(name), sent[0]) if name else None
        return f"${plan.parameter(known)}" if known else sent[0]

    numbered = _SENT.sub(one, text)
    if missing := [each for each in plan.parameters.values() if each.value is None]:
        raise SettingError(
            f"The proof needs a value of {', '.join(each.written for each in missing)}",
            " ".join(f"--value {each.name}=…" for each in missing)
            + " gives one that the rows have",
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


def _set_parameters(
    plan: Plan, select: pb.SelectStmt, named: dict[int, str], filled_in: tuple[str, ...]
) -> None:
    """Write named constants of conditions as parameters, and note those that may be some."""
    conditions = [
        *(one.where_clause for one in tree.find(select, pb.SelectStmt)),
        *(join.quals for join in tree.find(select, pb.JoinExpr)),
    ]
    names = {**named}
    for name, constant in (found for one in conditions for found in _compared_constants(one)):
        if name in filled_in:
            names[constant.location] = name
        elif constant.location not in named:
            plan.constants[name] = tree.sql(pb.Node(a_const=constant))

    def one(node: pb.Node) -> pb.Node | None:
        if not node.HasField("a_const") or node.a_const.location not in names:
            return None
        number = plan.parameter(Parameter(names[node.a_const.location], tree.sql(node)))
        return pb.Node(param_ref=pb.ParamRef(number=number))

    for condition in conditions:
        tree.change(condition, one)


def _compared_constants(condition: pb.Node) -> Iterator[tuple[str, pb.A_Const]]:
    """Yield the constants that a condition compares with a column, and the column's name."""
    for one in tree.find(condition, pb.A_Expr):
        if one.name[-1].string.sval not in ("=", "<", "<=", ">", ">=", "BETWEEN"):
            continue
        for own, other in ((one.lexpr, one.rexpr), (one.rexpr, one.lexpr)):
            parts = (pb.ColumnRef, pb.FuncCall, pb.A_Expr, pb.SubLink)
            if own.HasField("column_ref") and not any(tree.find(other, part) for part in parts):
                for constant in tree.find(other, pb.A_Const):
                    yield tree.column_name(own), constant


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


def _marked(plan: Plan, text: str, select: pb.SelectStmt) -> str:
    """Mark a query's tables and write its views out, in the tree and in the text: return that.

    The proof asks the text, as it was sent.
    """
    raw, tokens = text.encode(), postgast.scan(text).tokens
    changes: list[tuple[int, int, str]] = []
    """Where which number of tokens is something else."""
    for ref in tree.find(select, pb.ColumnRef):
        # The table has an alias now, which has no schema.
        if len(ref.fields) > 2:
            changes.append((ref.location, 2 * len(ref.fields) - 4, ""))
            del ref.fields[:-2]
    for node in list(_range_vars(select, set())):
        var = node.range_var
        location, count = var.location, 3 if var.schemaname else 1
        relation = plan.catalog.relation(var.schemaname, var.relname)
        alias = "" if var.alias.aliasname else f" as {quoted(var.relname)}"
        var.alias.aliasname = var.alias.aliasname or var.relname
        if relation.definition:
            own = relation.definition.rstrip("; \n")
            view = tree.parse(own)[0]
            name = f"({_marked(plan, own, view)})"
            replace_entry(node, view, [])
        else:
            name = plan.source(relation)
            var.relname, var.schemaname = name, ""
        changes.append((location, count, f"{name}{alias}"))
    parts, at = [], 0
    for location, count, new in sorted(changes):
        inside = [token for token in tokens if token.start >= location]
        parts += [raw[at:location], new.encode()]
        at = inside[count - 1].end
    return b"".join([*parts, raw[at:]]).decode()


def _write_out(plan: Plan, select: pb.SelectStmt) -> None:
    """Write plain CTEs out, and name columns. Raises SettingError for what is not kept."""
    for part in tree.find(select, pb.SelectStmt):
        refuse(plan, part)
        _inline_ctes(plan, part)
    for part in tree.find(select, pb.SelectStmt):
        for target in part.target_list:
            own = target.res_target
            if not own.name and not own.val.HasField("column_ref"):
                own.name = name_of(own.val)


def replace_entry(node: pb.Node, query: pb.SelectStmt, columns: list[pb.Node]) -> None:
    """Put a query in the place of an entry of FROM, under its alias."""
    alias, named = alias_of(node)
    entry = tree.subselect(query, alias)
    entry.range_subselect.alias.colnames.extend(node.range_var.alias.colnames if named else columns)
    node.CopyFrom(entry)


def is_plain(plan: Plan, select: pb.SelectStmt) -> bool:
    """Return whether a sub-select only passes rows on, so that a model may have it in FROM."""
    if select.HasField("larg"):
        is_union_all = select.op == pb.SETOP_UNION and select.all
        ends = select.sort_clause or select.limit_count.ByteSize() or select.with_clause.ctes
        arms = (select.larg, select.rarg)
        return is_union_all and not ends and all(is_plain(plan, arm) for arm in arms)
    says = (
        *(select.distinct_clause, select.group_clause, select.window_clause),
        *(select.values_lists, select.with_clause.ctes),
    )
    if any(says) or any(
        select.HasField(one) for one in ("having_clause", "limit_count", "limit_offset")
    ):
        return False
    return (
        bool(select.from_clause)
        and not tree.has_windows(select)
        and not aggregates_of(plan, select)
        and not any(tree.find(sub, pb.RangeVar) for sub in tree.find(select, pb.SubLink))
        and all(
            is_plain(plan, one.subquery.select_stmt) for one in tree.find(select, pb.RangeSubselect)
        )
    )


def _inline_ctes(plan: Plan, select: pb.SelectStmt) -> None:
    """Write each CTE that only passes rows on where it is read."""
    for entry in list(select.with_clause.ctes):
        cte = entry.common_table_expr
        if not is_plain(plan, cte.ctequery.select_stmt):
            continue
        for node in tree.find(select, pb.Node):
            if (node.range_var.schemaname, node.range_var.relname) == ("", cte.ctename):
                replace_entry(node, cte.ctequery.select_stmt, list(cte.aliascolnames))
        select.with_clause.ctes.remove(entry)
    if not select.with_clause.ctes:
        select.ClearField("with_clause")


def _spell_groups(plan: Plan, select: pb.SelectStmt) -> None:
    """Write numbers and aliases in GROUP BY as what they mean, here and below."""
    ctes: dict[str, tuple[str, ...]] = {}
    for part in tree.find(select, pb.SelectStmt):
        ctes |= named_ctes(plan, part, ctes)
        if not part.group_clause:
            continue
        items = Scope(plan, part, None, ctes).items
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


def _name_columns(plan: Plan, original: str, select: pb.SelectStmt) -> None:
    """Give the view's columns the query's names; of two that are the same, the second a number."""
    if not select.target_list or tree.has_star(select):
        return
    taken: list[str] = []
    for (name, _), target in zip(plan.columns(original), select.target_list, strict=True):
        own = free(name, taken)
        if own != name:
            plan.notes.append(f"Two columns are named {name}: the view's second one is {own}")
        taken.append(own)
        target.res_target.name = own
