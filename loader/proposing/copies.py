"""A table that is only joined is a rows model: its key, and the columns that something reads."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.catalog import Relation
from loader.proposing.plan import Model, Plan
from loader.proposing.prepare import is_plain, replace_entry
from loader.proposing.scope import Item, Scope, scoped_refs
from waltally.errors import SettingError


def copy_rows(scope: Scope) -> None:
    """Let a query read the rows of its tables from rows models. Raises SettingError."""
    scope = scope.again()
    for item in scope.items:
        if item.relation:
            _copy(scope, item, item.relation)
        elif item.kind == "query" and is_plain(scope.plan, item.query):
            for arm in tree.arms(item.query):
                copy_rows(scope.inside(arm))


def _copy(scope: Scope, item: Item, relation: Relation) -> None:
    plan, table = scope.plan, relation.table
    if not relation.key:
        raise SettingError(
            f"{table} has no primary key, so its rows cannot be kept",
            f"give {table} a primary key",
        )
    if str(table) in plan.ignore_deletes:
        raise SettingError(
            f"Deleted rows of {table} stay counted, and their columns would be gone here",
            f"leave out --ignore-deletes {table}",
        )
    own: list[pb.Node] = []
    rest: list[pb.Node] = []
    for one in tree.conjuncts(scope.select.where_clause):
        is_own = not item.is_nullable and scope.is_own(one, {item.alias})
        (own if is_own and not tree.find(one, pb.SubLink) else rest).append(one)
    if own:
        tree.set_where(scope.select, rest)
    needed = {*scope.read_columns(item), *relation.key}
    where = tree.with_columns(tree.all_of(own), lambda one: tree.column(tree.column_name(one)))
    mark = item.node.range_var.relname
    name = f"{table.name}_rows"
    if any(known.name == name and known.copied not in ("", mark) for known in plan.models.values()):
        name = f"{table.schema}_{name}"
    model = Model(
        name,
        columns=tuple(column for column in relation.columns if column in needed),
        copied=mark,
        where=tree.sql(where) if own else "",
    )
    item.node.range_var.relname = plan.model(model)


def read_enums_back(plan: Plan, select: pb.SelectStmt) -> None:
    """Let a query over models read their enums, which they have as texts, as its tables' were."""
    entries: dict[int, tuple[pb.Node, set[str]]] = {}
    for ref, scope in scoped_refs(select, Scope(plan, pb.SelectStmt())):
        _, item, name = scope.find(ref)
        if item and item.model:
            entries.setdefault(id(item.node), (item.node, set()))[1].add(name)
    for node, read in entries.values():
        mark = node.range_var.relname
        types = dict(plan.columns(f"select * from {mark}"))
        if any("." in types[name] for name in read):
            listed = (
                f"{own}::{type_} as {own}" if "." in type_ and name in read else own
                for name, type_ in types.items()
                for own in (tree.sql(tree.column(name)),)
            )
            replace_entry(node, tree.parse(f"select {', '.join(listed)} from {mark}")[0], [])
