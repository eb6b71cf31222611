"""Splits a query: what is counted becomes models, and what is left reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial

from postgast import pg_query_pb2 as pb

from loader.proposing import hoist, tree
from loader.proposing.apart import take_rows_first
from loader.proposing.book import Book
from loader.proposing.copies import copy_rows
from loader.proposing.groups import complete_groups
from loader.proposing.joins import joined_tables, multiplies, parents
from loader.proposing.keep import Keep
from loader.proposing.latest import Latest, filters_of, has_first, has_windows, part_lateral
from loader.proposing.lookups import join_lookups
from loader.proposing.prepare import is_plain
from loader.proposing.reading import is_aggregate, is_read
from loader.proposing.rollup import RollUp
from loader.proposing.scope import Item, Scope, named_ctes
from loader.proposing.sets import is_once, select_one
from loader.proposing.stored import read_back
from loader.proposing.zone import write_zone
from waltally.errors import Interrupted, LoaderError, SettingError

_Way = Callable[[Scope, bool], object]
_INSTEAD = "keep the rows that it reads (rows models), and ask the query of them"
_SETS = (pb.EXISTS_SUBLINK, pb.ANY_SUBLINK, pb.ALL_SUBLINK)
_MANY = 1000
"""A table with fewer rows, or without statistics, is judged by its joins."""


class Split:
    """Splits one query of a book. `compile_` raises LoaderError where a model is none."""

    def __init__(self, book: Book, name: str, compile_: Callable[[Book], None]) -> None:
        self.book, self.name, self.compile = book, name, compile_
        self.facts = 0
        self.refusals: list[LoaderError] = []
        self.lacks_order = False
        """Whether the first one is what DISTINCT ON or a window lacks."""

    def split(self, select: pb.SelectStmt) -> None:
        """Change the query to read models alone. Raises LoaderError where it is not kept."""
        calls = tree.find(select, pb.FuncCall)
        is_set = select.HasField("larg") and not select.all
        self.has_aggregates = (
            is_set
            or bool(select.distinct_clause)
            or any(is_aggregate(self.book, call) for call in calls)
        )
        self._query(Scope(self.book, select, None, named_ctes(self.book, select, {})), False)
        if not self.facts:
            raise self._only_copies(select)
        read_back(self.book, select)
        write_zone(self.book, select)

    def _only_copies(self, select: pb.SelectStmt) -> LoaderError:
        """Return why nothing but copies of tables would be kept."""
        inner = tree.find(select, pb.SelectStmt)
        calls = tree.find(select, pb.FuncCall)
        reasons = {
            "DISTINCT ON takes one row of several by their order": any(
                one.distinct_clause and one.distinct_clause[0].WhichOneof("node") for one in inner
            ),
            "LIMIT in a sub-select takes some rows by their order": any(
                one.HasField("limit_count") for one in inner if one is not select
            ),
            "A window over rows needs each of them, in its order": any(
                call.HasField("over") for call in calls
            ),
        }
        if self.lacks_order:
            return self.refusals[0]
        if reason := next((text for text, holds in reasons.items() if holds), None):
            return SettingError(f"{reason}: only copies of the tables would be kept", _INSTEAD)
        return next(iter(self.refusals), None) or SettingError(
            "The query has no count, sum or other aggregate over a table's rows: each row is"
            " needed, and only copies of the tables would be kept",
            _INSTEAD,
        )

    def _query(self, scope: Scope, is_set: bool, read: Sequence[pb.Node] = ()) -> None:
        """Split a query; of a set it does not matter how often a row comes.

        `read`: which of its rows the query around it reads.
        """
        select = scope.select
        for entry in select.with_clause.ctes:
            self._query(scope.inside(entry.common_table_expr.ctequery.select_stmt), False)
        if select.HasField("larg"):
            for side in (select.larg, select.rarg):
                inside = Scope(self.book, side, scope.outer, scope.ctes)
                is_own = is_set and select.op != pb.SETOP_EXCEPT
                self._query(inside, is_once(select, is_own or not select.all))
            return
        hoist.raise_conditions(scope)
        take_rows_first(scope.again(), read)
        scope = scope.again()
        for item in scope.items:
            if item.kind == "query" and not self._is_input(item):
                filters = part_lateral(scope, item) or filters_of(scope, item)
                self._query(scope.inside(item.query), False, filters)
        for link in tree.find(select, pb.SubLink, tree.here(select)):
            if tree.find(link, pb.RangeVar):
                inner = link.subselect.select_stmt
                if link.sub_link_type == pb.EXISTS_SUBLINK:
                    select_one(inner)
                self._query(scope.inside(inner), is_once(inner, link.sub_link_type in _SETS))
        self._block(scope, is_once(select, is_set), read)

    def _aggregates(self, select: pb.SelectStmt) -> list[pb.FuncCall]:
        calls = tree.find(select, pb.FuncCall, tree.here(select))
        return [call for call in calls if is_aggregate(self.book, call)]

    def _is_input(self, item: Item) -> bool:
        """Return whether a model may have this entry in its FROM."""
        if item.kind != "query":
            return item.kind in ("table", "model")
        has_tables = bool(tree.find(item.query, pb.RangeVar))
        is_input = has_tables and is_plain(self.book, item.query)
        return is_input and not is_read(self.book, item.query)

    def _without_order(self, scope: Scope) -> Scope:
        """Let the sub-selects that a model may have be without ORDER BY: no model depends on it."""
        for item in scope.items:
            if item.kind == "query" and self._is_input(item):
                for arm in tree.arms(item.query):
                    arm.ClearField("sort_clause")
        return scope

    def _block(self, scope: Scope, is_set: bool, read: Sequence[pb.Node]) -> None:
        """Keep what one SELECT counts, in the first way that the compiler takes."""
        select = scope.select
        is_grouped = bool(select.group_clause or self._aggregates(select))
        is_latest = not is_grouped and (has_first(select) or has_windows(select))
        ways: list[_Way] = [self._joined, self._folded_and_joined, self._folded]
        if is_grouped:
            ways.insert(0, self._looked_up)
        if is_latest:
            ways = [partial(self._latest, read)]
        elif not (is_grouped or is_set):
            ways = []
        for way in [*ways, *([self._answered] if is_grouped else [])]:
            models, notes = deepcopy(self.book.models), [*self.book.notes]
            before = deepcopy(select)
            try:
                if way(self._without_order(scope.again()), is_grouped):
                    self.compile(self.book)
                    self.facts += is_grouped or self.has_aggregates or is_latest
                    if is_grouped and way != self._answered:
                        self._roll_up(scope)
                    return
            except Interrupted:
                raise
            except LoaderError as error:
                self.refusals.insert(0 if is_latest else len(self.refusals), error)
                self.lacks_order |= is_latest
            self.book.models[:], self.book.notes[:] = models, notes
            select.CopyFrom(before)
        self._read_rows(scope)
        self.compile(self.book)

    def _latest(self, read: Sequence[pb.Node], scope: Scope, is_grouped: bool) -> bool:
        """A roll-up of the rows of one table that decide each other."""
        if [item.kind for item in scope.items] != ["table"]:
            return False
        copy_rows(self.book, scope)
        Latest(scope.again(), f"{self.name}_answer", read).make()
        return True

    def _answered(self, scope: Scope, is_grouped: bool) -> bool:
        """A roll-up of the rows of one table: its aggregates need each of them."""
        if [item.kind for item in scope.items] != ["table"]:
            return False
        copy_rows(self.book, scope)
        self.compile(self.book)
        return self._roll_up(scope)

    def _roll_up(self, scope: Scope) -> bool:
        """Keep the answer, where one model decides it and the compiler takes it."""
        for keeps_expressions in (True, False):
            select, models = deepcopy(scope.select), deepcopy(self.book.models)
            keep = RollUp(scope.again(), f"{self.name}_answer", keeps_expressions)
            if not keep.is_possible:
                return False
            try:
                keep.make(True)
                self.compile(self.book)
                return True
            except Interrupted:
                raise
            except LoaderError as error:
                self.refusals.append(error)
                self.book.models[:] = models
                scope.select.CopyFrom(select)
        return False

    def _read_rows(self, scope: Scope) -> None:
        copy_rows(self.book, scope)
        complete_groups(scope.again())

    # Three ways to keep a query of counts, the best first

    def _looked_up(self, scope: Scope, is_grouped: bool) -> bool:
        """What EXISTS or IN looks up is joined too."""
        ways = (self._joined, self._folded_and_joined)
        return join_lookups(scope) and any(way(scope.again(), is_grouped) for way in ways)

    def _joined(self, scope: Scope, is_grouped: bool) -> bool:
        """One model over all of FROM: a fact over a table, or over the rows of several."""
        if not self._is_one_input(scope) or (is_grouped and multiplies(scope)):
            return False
        if joined_tables(scope) > 1:
            if is_grouped and len(scope.items) > 1 and self._saves(scope):
                return False
            copy_rows(self.book, scope)
            scope = scope.again()
        keep = Keep(scope, scope.items, self.name)
        keep.make(is_grouped)
        if not is_grouped:
            _require_fewer(keep, scope.items)
        return True

    def _folded_and_joined(self, scope: Scope, is_grouped: bool) -> bool:
        """A fact of the counted table, and a fact over it and the rows of the others."""
        if not is_grouped or joined_tables(scope) < 2 or not self._is_one_input(scope):
            return False
        if not self._fold(scope, is_grouped):
            return False
        copy_rows(self.book, scope)
        again = scope.again()
        Keep(again, again.items, self.name).make(is_grouped)
        return True

    def _folded(self, scope: Scope, is_grouped: bool) -> bool:
        """A fact of the counted table; the query joins the rows of the others when it reads."""
        if not self._fold(scope, is_grouped):
            return False
        self._read_rows(scope)
        return True

    def _fold(self, scope: Scope, is_grouped: bool) -> Keep | None:
        """Let the counted table be a fact. Raises SettingError where nothing is saved."""
        item = self._counted(scope)
        if item is None:
            return None
        arms = tree.arms(item.query) if item.kind == "query" else []
        if any(len(tree.find(arm, pb.RangeVar)) > 1 for arm in arms):
            for arm in arms:
                copy_rows(self.book, scope.inside(arm))
        table = f"_{item.relation.table.name}" if item.relation else ""
        keep = Keep(scope, [item], f"{self.name}{table}")
        keep.make(is_grouped)
        _require_fewer(keep, [item])
        return keep

    def _saves(self, scope: Scope) -> bool:
        """Return whether grouping the counted table before it is joined saves rows."""
        trial, models = deepcopy(scope.select), deepcopy(self.book.models)
        try:
            keep = self._fold(Scope(self.book, trial, scope.outer, scope.ctes), True)
            return keep is not None and not keep.has_sets
        except Interrupted:
            raise
        except LoaderError:
            return False
        finally:
            self.book.models[:] = models

    def _is_one_input(self, scope: Scope) -> bool:
        joins = tree.find(scope.select, pb.JoinExpr, tree.here(scope.select))
        return (
            joined_tables(scope) > 0
            and all(
                self._is_input(item) or item.kind in ("function", "other") for item in scope.items
            )
            and not any(is_read(self.book, join.quals) for join in joins)
        )

    def _counted(self, scope: Scope) -> Item | None:
        """Return the table of many rows: no join finds one of its rows by its key."""
        calls = self._aggregates(scope.select)
        read = [{item.alias for item, _ in scope.refs(call) if item} for call in calls]
        one_row = parents(scope)
        usable = [
            item
            for item in scope.items
            if self._is_input(item)
            and item.kind != "model"
            and (not calls or any(not own or item.alias in own for own in read))
        ]
        return min(
            usable,
            key=lambda item: (
                -item.relation.rows if item.relation and item.relation.rows > _MANY else 0,
                item.alias in one_row,
                not any(item.alias in own for own in read),
            ),
            default=None,
        )


def _require_fewer(keep: Keep, items: list[Item]) -> None:
    """Raise SettingError where a fact of one table has a group for each of its rows."""
    (item, *others) = items
    keys = {text.removeprefix(f"{item.alias}.") for text in keep.keys}
    if item.relation and item.relation.key and {*item.relation.key} <= keys and not others:
        only = f"The query needs each row of {item.relation.table}: only a copy would be kept"
        raise SettingError(only, _INSTEAD)
