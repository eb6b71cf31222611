"""The ways to keep one SELECT: the first one that the compiler takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.copies import copy_rows
from loader.proposing.keep import Keep
from loader.proposing.lookups import join_lookups
from loader.proposing.plan import Plan
from loader.proposing.prepare import is_plain
from loader.proposing.rollup import Latest, RollUp
from loader.proposing.scope import Item, Scope, aggregates_of, complete_groups, is_read
from waltally.errors import Interrupted, LoaderError

_MANY = 1000
"""A table with fewer rows, or without statistics, is judged by its joins."""


class Ways:
    """Keeps SELECTs. `compile_` raises LoaderError where a model is none."""

    def __init__(self, name: str, compile_: Callable[[Plan], None], has_aggregates: bool) -> None:
        self.name, self.compile = name, compile_
        self.has_aggregates = has_aggregates
        """Whether a set is kept for something that is counted."""
        self.refusals: list[LoaderError] = []
        """Why queries of counts are not kept in one of the ways."""
        self.refusals_of_first: list[LoaderError] = []
        """Why first rows of groups are not kept."""

    def keep(self, scope: Scope, is_set: bool, read: Sequence[pb.Node]) -> bool:
        """Keep one SELECT, and return whether a model has more than a table's rows.

        `is_set`: it does not matter how often a row comes; `read`: which of its rows the query
        around it reads.
        """
        select, refusals, is_more = scope.select, self.refusals, True
        ways: list[Callable[[Scope], bool]] = []
        if is_grouped := _is_grouped(scope):
            ways = [self._looked_up, self._joined, self._folded_and_joined, self._folded]
        elif tree.is_distinct_on(select) or tree.has_windows(select):
            ways = [partial(self._latest, read)]
            refusals = self.refusals_of_first
        elif is_set:
            ways = [self._joined, self._folded]
            is_more = self.has_aggregates
        if any(self._is_kept(scope, way, refusals) for way in ways):
            if is_grouped:
                self._roll_up(scope)
            return is_more
        if is_grouped and self._is_kept(scope, self._answered, refusals):
            return True
        _read_rows(scope)
        self.compile(scope.plan)
        return False

    def _is_kept(
        self, scope: Scope, way: Callable[[Scope], bool], refusals: list[LoaderError]
    ) -> bool:
        """Go a way with copies of query and plan, and take them where the compiler does."""
        trial = scope.copied()
        # No model depends on an order in FROM.
        for item in trial.items:
            if item.kind == "query" and is_input(trial, item):
                for arm in tree.arms(item.query):
                    arm.ClearField("sort_clause")
        try:
            if not way(trial):
                return False
            self.compile(trial.plan)
        except Interrupted:
            raise
        except LoaderError as error:
            refusals.append(error)
            return False
        scope.take(trial)
        return True

    def _latest(self, read: Sequence[pb.Node], scope: Scope) -> bool:
        """A roll-up of the rows of one table that decide each other."""
        if [item.kind for item in scope.items] != ["table"]:
            return False
        copy_rows(scope)
        Latest(scope.again(), f"{self.name}_answer", read).make()
        return True

    def _answered(self, scope: Scope) -> bool:
        """A roll-up of the rows of one table: its aggregates need each of them."""
        if [item.kind for item in scope.items] != ["table"]:
            return False
        copy_rows(scope)
        self.compile(scope.plan)
        return self._roll_up(scope)

    def _roll_up(self, scope: Scope) -> bool:
        """Keep the answer, where one model decides it and the compiler takes it."""
        ways = (partial(self._answer, own) for own in (True, False))
        return any(self._is_kept(scope, way, self.refusals) for way in ways)

    def _answer(self, keeps_expressions: bool, scope: Scope) -> bool:
        keep = RollUp(scope, f"{self.name}_answer", keeps_expressions)
        if not keep.is_possible:
            return False
        keep.make(True)
        return True

    # Four ways to keep a query of counts, the best first

    def _looked_up(self, scope: Scope) -> bool:
        """What EXISTS or IN looks up is joined too."""
        ways = (self._joined, self._folded_and_joined)
        return join_lookups(scope) and any(way(scope.again()) for way in ways)

    def _joined(self, scope: Scope) -> bool:
        """One model over all of FROM: a fact over a table, or over the rows of several."""
        is_grouped = _is_grouped(scope)
        if not _is_one_input(scope) or (is_grouped and _multiplies(scope)):
            return False
        if _joined_tables(scope) > 1:
            if is_grouped and len(scope.items) > 1 and self._saves(scope):
                return False
            copy_rows(scope)
            scope = scope.again()
        keep = Keep(scope, scope.items, self.name)
        keep.make(is_grouped)
        if not is_grouped:
            keep.require_fewer()
        return True

    def _folded_and_joined(self, scope: Scope) -> bool:
        """A fact of the counted table, and a fact over it and the rows of the others."""
        if _joined_tables(scope) < 2 or not _is_one_input(scope) or not self._fold(scope):
            return False
        copy_rows(scope)
        again = scope.again()
        Keep(again, again.items, self.name).make(True)
        return True

    def _folded(self, scope: Scope) -> bool:
        """A fact of the counted table; the query joins the rows of the others when it reads."""
        if not self._fold(scope):
            return False
        _read_rows(scope)
        return True

    def _fold(self, scope: Scope) -> Keep | None:
        """Let the counted table be a fact. Raises SettingError where nothing is saved."""
        item = _counted(scope)
        if item is None:
            return None
        arms = tree.arms(item.query) if item.kind == "query" else []
        if any(len(tree.find(arm, pb.RangeVar)) > 1 for arm in arms):
            for arm in arms:
                copy_rows(scope.inside(arm))
        table = f"_{item.relation.table.name}" if item.relation else ""
        keep = Keep(scope, [item], f"{self.name}{table}")
        keep.make(_is_grouped(scope))
        keep.require_fewer()
        return keep

    def _saves(self, scope: Scope) -> bool:
        """Return whether grouping the counted table before it is joined saves rows."""
        try:
            keep = self._fold(scope.copied())
        except Interrupted:
            raise
        except LoaderError:
            return False
        return keep is not None and not keep.has_sets


def is_input(scope: Scope, item: Item) -> bool:
    """Return whether a model may have this entry in its FROM."""
    if item.kind != "query":
        return item.kind in ("table", "model")
    has_tables = bool(tree.find(item.query, pb.RangeVar))
    return has_tables and is_plain(scope.plan, item.query) and not is_read(scope.plan, item.query)


def _is_grouped(scope: Scope) -> bool:
    return bool(scope.select.group_clause or aggregates_of(scope.plan, scope.select))


def _read_rows(scope: Scope) -> None:
    copy_rows(scope)
    complete_groups(scope.again())


def _joined_tables(scope: Scope) -> int:
    """Return how many tables are joined; the arms of a UNION ALL over one each are one."""
    return sum(
        max(len(tree.find(arm, pb.RangeVar)) for arm in tree.arms(item.query))
        if item.kind == "query"
        else item.kind in ("table", "model")
        for item in scope.items
    )


def _is_one_input(scope: Scope) -> bool:
    joins = tree.own(scope.select, pb.JoinExpr)
    return (
        _joined_tables(scope) > 0
        and all(is_input(scope, item) or item.kind in ("function", "other") for item in scope.items)
        and not any(is_read(scope.plan, join.quals) for join in joins)
    )


def _multiplies(scope: Scope) -> bool:
    """Return whether constants in FROM have as many rows as a reader's conditions leave."""
    constants = {item.alias for item in scope.items if item.kind == "other"}
    return any(
        is_read(scope.plan, one) and scope.aliases(one) & constants
        for one in tree.conditions(scope.select)
    )


def _counted(scope: Scope) -> Item | None:
    """Return the table of many rows: no join finds one of its rows by its key."""
    calls = aggregates_of(scope.plan, scope.select)
    read = [scope.aliases(call) - {None} for call in calls]
    usable = [
        item
        for item in scope.items
        if is_input(scope, item)
        and item.kind != "model"
        and (not calls or any(not own or item.alias in own for own in read))
    ]
    return min(
        usable,
        key=lambda item: (
            -item.relation.rows if item.relation and item.relation.rows > _MANY else 0,
            _is_parent(scope, item),
            not any(item.alias in own for own in read),
        ),
        default=None,
    )


def _is_parent(scope: Scope, item: Item) -> bool:
    """Return whether a join finds one row of an entry, by the whole primary key."""
    others = {None, *(other.alias for other in scope.items if other is not item)}
    lookups = (scope.lookup(one, item, others) for one in tree.conditions(scope.select))
    return item.has_key([tree.column_name(own) for own, _ in filter(None, lookups)])
