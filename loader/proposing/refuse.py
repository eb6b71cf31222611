"""What no model answers, and names by which the application may mean something of a user's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import Plan
from loader.proposing.scope import CLOCKS, Scope, is_aggregate, scoped_refs
from waltally.errors import SettingError
from waltally.tables import Table


def refuse_writes(select: pb.SelectStmt) -> None:
    """Raise SettingError where a query makes a table, or changes one."""
    if tree.find(select, pb.IntoClause):
        raise SettingError("SELECT INTO makes a table", "leave INTO out")
    ctes = tree.find(select, pb.CommonTableExpr)
    if any(not cte.ctequery.HasField("select_stmt") for cte in ctes):
        raise SettingError("A WITH query changes rows", "give the query that reads them")


def refuse(plan: Plan, select: pb.SelectStmt) -> None:
    """Raise SettingError for what one SELECT says, itself or in its expressions."""
    if select.with_clause.recursive:
        raise SettingError("A recursive query walks from row to row", "keep what it reads")
    if select.locking_clause:
        raise SettingError("A query that locks rows is no report", "leave out FOR UPDATE")
    if tree.find(select, pb.RangeTableSample):
        raise SettingError("TABLESAMPLE gives other rows each time", "leave it out")
    if tree.find(select, pb.GroupingSet):
        raise SettingError(
            "Grouping sets, ROLLUP and CUBE are several answers in one",
            "give the query of each set, with UNION ALL around them",
        )
    for join in tree.find(select, pb.JoinExpr):
        is_outer = join.jointype in (pb.JOIN_RIGHT, pb.JOIN_FULL)
        if join.is_natural or (is_outer and join.using_clause):
            raise SettingError(
                "A NATURAL JOIN, or a RIGHT or FULL JOIN … USING: a name in it is of two tables",
                "join ON …, and name each column's table",
            )
        if join.alias.aliasname or join.join_using_alias.aliasname:
            raise SettingError("A join has a name of its own", "name the tables' columns")
    for call in tree.find(select, pb.FuncCall):
        *schema, name = _names(call.funcname)
        if _is_users(schema) or name not in plan.catalog.functions:
            raise SettingError(
                f"{name}() is a function of a user", "write its expression in its place"
            )
        if name == "to_char" and any("TM" in tree.sql(arg) for arg in call.args[1:]):
            raise SettingError("A format with TM speaks each reader's language", "leave TM out")
        count = len(call.args) + len(call.agg_order) * call.agg_within_group
        if not schema and (other := plan.catalog.overload(name, count)):
            raise SettingError(
                f"{name}() may be {other}, which is of a user", f"write pg_catalog.{name}()"
            )
        if name in plan.catalog.volatile - {*CLOCKS}:
            raise SettingError(f"{name}() gives another value at each call", "leave it out")
    for schema, name in _operators(select):
        if _is_users(schema) or (not schema and plan.catalog.overload(name, 2)):
            raise SettingError(
                f"{name} may be an operator of a user", f"write operator(pg_catalog.{name})"
            )
    for type_ in tree.find(select, pb.TypeName):
        *schema, name = _names(type_.names)
        if _is_users(schema) and not plan.catalog.is_enum(Table(schema[-1], name).quoted):
            raise SettingError(
                f"{schema[0]}.{name} is a type of a user", "write one of PostgreSQL's own"
            )


def refuse_names(plan: Plan, select: pb.SelectStmt) -> None:
    """Raise SettingError where a name means a whole row, or an aggregate is not its own query's."""

    def judge(message: Message, scope: Scope) -> bool:
        if isinstance(message, pb.ResTarget) and "*" in tree.names(message.val.column_ref):
            return True
        if isinstance(message, pb.SortBy) and tree.is_output(scope.select, message.node):
            return True
        if isinstance(message, pb.ColumnRef):
            name = tree.names(message)[-1]
            is_alias = len(message.fields) == 1 and any(name == one.alias for one in scope.items)
            if name == "*" or (is_alias and not scope.find(message)[1]):
                text = tree.sql(pb.Node(column_ref=message))
                raise SettingError(
                    f"{text} is a whole row", "name the columns, for count() the primary key"
                )
        if isinstance(message, pb.FuncCall) and is_aggregate(plan, message):
            owners = [inner.find(ref)[0] for ref, inner in scoped_refs(message, scope)]
            if owners and all(owner and owner.is_around(scope) for owner in owners):
                text = tree.sql(pb.Node(func_call=message))
                raise SettingError(
                    f"{text} in a sub-select is an aggregate of the query around it",
                    "compute it in a sub-select in FROM, and compare with its column",
                )
        return False

    list(scoped_refs(select, Scope(plan, pb.SelectStmt()), judge))


def _is_users(schema: list[str]) -> bool:
    return schema not in ([], ["pg_catalog"])


def _names(parts: Iterable[pb.Node]) -> list[str]:
    return [part.string.sval for part in parts]


_SPELLED = {"BETWEEN": (">=", "<="), "NOT BETWEEN": ("<", ">")}


def _operators(select: pb.SelectStmt) -> Iterator[tuple[list[str], str]]:
    """Yield the operators of expressions, of x = ANY (…) and of ORDER BY … USING."""
    named = [
        *(one.name for one in tree.find(select, pb.A_Expr)),
        *(one.oper_name for one in tree.find(select, pb.SubLink)),
        *(one.use_op for one in tree.find(select, pb.SortBy)),
    ]
    for *schema, name in filter(None, map(_names, named)):
        for operator in _SPELLED.get(name.replace(" SYMMETRIC", ""), (name,)):
            yield schema, operator
