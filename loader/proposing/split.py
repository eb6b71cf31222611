"""Splits a query: each SELECT in it is kept by itself, and what is left reads the models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.copies import read_enums_back
from loader.proposing.kept import INSTEAD
from loader.proposing.lookups import raise_conditions
from loader.proposing.plan import Plan
from loader.proposing.ranked import filters_of, part_lateral, take_rows_first
from loader.proposing.scope import Scope, is_aggregate, named_ctes
from loader.proposing.ways import Ways, is_input
from loader.proposing.zone import write_zone
from waltally.errors import LoaderError, SettingError

_SETS = (pb.EXISTS_SUBLINK, pb.ANY_SUBLINK, pb.ALL_SUBLINK)


def split(plan: Plan, name: str, select: pb.SelectStmt, compile_: Callable[[Plan], None]) -> None:
    """Change a query to read models alone, which the plan gets. `name`: that of its models.

    Raises LoaderError where the query is not kept; `compile_` does so where a model is none.
    """
    is_distinct = bool(select.distinct_clause) or (select.HasField("larg") and not select.all)
    has_aggregates = is_distinct or any(
        is_aggregate(plan, call) for call in tree.find(select, pb.FuncCall)
    )
    one = _Split(Ways(name, compile_, has_aggregates))
    one.split(Scope(plan, select, None, named_ctes(plan, select, {})), False)
    if not one.is_kept:
        raise _only_copies(one.ways, select)
    read_enums_back(plan, select)
    write_zone(plan, select)


class _Split:
    def __init__(self, ways: Ways) -> None:
        self.ways = ways
        self.is_kept = False
        """Whether a model has more than a table's rows."""

    def split(self, scope: Scope, is_set: bool, read: Sequence[pb.Node] = ()) -> None:
        """Split a query; of a set it does not matter how often a row comes.

        `read`: which of its rows the query around it reads.
        """
        select = scope.select
        for entry in select.with_clause.ctes:
            self.split(scope.inside(entry.common_table_expr.ctequery.select_stmt), False)
        if select.HasField("larg"):
            for side in (select.larg, select.rarg):
                inside = Scope(scope.plan, side, scope.outer, scope.ctes)
                is_own = is_set and select.op != pb.SETOP_EXCEPT
                self.split(inside, _is_once(select, is_own or not select.all))
            return
        raise_conditions(scope)
        take_rows_first(scope.again(), read)
        scope = scope.again()
        for item in scope.items:
            if item.kind == "query" and not is_input(scope, item):
                filters = part_lateral(scope, item) or filters_of(scope, item)
                self.split(scope.inside(item.query), False, filters)
        for link in tree.own(select, pb.SubLink):
            if tree.find(link, pb.RangeVar):
                inner = link.subselect.select_stmt
                if link.sub_link_type == pb.EXISTS_SUBLINK:
                    _select_one(inner)
                self.split(scope.inside(inner), _is_once(inner, link.sub_link_type in _SETS))
        self.is_kept |= self.ways.keep(scope.again(), _is_once(select, is_set), read)


def _is_once(select: pb.SelectStmt, is_set: bool) -> bool:
    """Return whether it does not matter how often the query's rows come."""
    if tree.has_windows(select):
        return False
    if select.distinct_clause and not tree.is_distinct_on(select):
        return True
    return is_set and not select.HasField("limit_count") and not select.HasField("limit_offset")


def _select_one(select: pb.SelectStmt) -> None:
    """What EXISTS selects does not matter, where it is not grouped."""
    listed = pb.List(items=select.target_list)
    if select.group_clause or select.distinct_clause or tree.find(listed, pb.FuncCall):
        return
    del select.target_list[:]
    select.target_list.append(pb.Node(res_target=pb.ResTarget(val=tree.expression("1"))))


def _only_copies(ways: Ways, select: pb.SelectStmt) -> LoaderError:
    """Return why nothing but copies of tables would be kept."""
    if ways.refusals_of_first:
        return ways.refusals_of_first[-1]
    inner = tree.find(select, pb.SelectStmt)
    if any(map(tree.is_distinct_on, inner)):
        reason = "DISTINCT ON takes one row of several by their order"
    elif any(one.HasField("limit_count") for one in inner if one is not select):
        reason = "LIMIT in a sub-select takes some rows by their order"
    elif any(call.HasField("over") for call in tree.find(select, pb.FuncCall)):
        reason = "A window over rows needs each of them, in its order"
    elif ways.refusals:
        return ways.refusals[0]
    else:
        reason = (
            "The query has no count, sum or other aggregate over a table's rows: each row is"
            " needed, and"
        )
        return SettingError(f"{reason} only copies of the tables would be kept", INSTEAD)
    return SettingError(f"{reason}: only copies of the tables would be kept", INSTEAD)
