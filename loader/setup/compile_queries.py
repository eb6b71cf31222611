"""Compiles the models that are queries: the target reads them over the source's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any

import psycopg2
from psycopg2.extras import Json

from loader.setup.declared import Declared
from loader.setup.query import Query
from loader.source.table_shape import read_shapes
from loader.staging import migrate
from waltally.database import Connection, Target
from waltally.errors import LoaderError, SettingError, TableUnfit
from waltally.models import Model
from waltally.tables import Table

_KIND = "select {}.say_model(%s)"
_ELSEWHERE = "select {0}.compile_model(%s, %s, %s, {0}.source_columns(%s, %s), %s)"


def compile_queries(
    declared: Declared, source: Connection, target: Target
) -> tuple[Declared, list[LoaderError]]:
    """Return what is declared with the queries among the models, and why some are refused.

    The target reads them, and nothing of it stays there. Raises LoaderError.
    """
    if not declared.queries:
        return declared, []
    own = [query for query in declared.queries if _is_of_slot(query, target.slot)]
    tables = {table for query in own for _, table in query.sources}
    shapes = read_shapes(source, sorted(tables, key=str))
    refused: list[LoaderError] = []
    wrong: set[Table] = set()
    elsewhere: set[Table] = set()
    compiled: dict[Table, Mapping[str, Any]] = {}
    kinds: dict[str, str] = {}
    with suppress(Undone), target.transaction():
        if migrate.has_other_functions(target):
            migrate.install(target)
        # What reads a refused one is not judged, nor what reads another slot's that is not known.
        others = [query for query in declared.queries if query not in own]
        for query in [*others, *_lowest_first(own)]:
            below = {table for _, table, _ in query.models}
            if unknown := next((known for known in (wrong, elsewhere) if known & below), None):
                unknown.add(query.relation)
                continue
            target.ask("savepoint before")
            try:
                if query in others:
                    compiled[query.relation] = _compile_elsewhere(query, target)
                else:
                    made = compiled[query.relation] = compile_one(query, shapes, compiled, target)
                    ((kinds[query.name],),) = target.ask_staging(_KIND, (Json(made),))
            except LoaderError as error:
                if query in others:
                    elsewhere.add(query.relation)
                else:
                    refused.append(refused_query(query, error))
                    wrong.add(query.relation)
            target.ask("rollback to savepoint before")
        raise Undone
    taken = [query for query in own if query.relation in compiled]
    models = [
        Model(query.name, query.relation, compiled[query.relation])
        for query in taken
        if not query.models
    ]
    known = tuple(sorted((*declared.models, *models), key=lambda model: model.name))
    whole = replace(
        declared,
        models=known,
        queries=tuple(own),
        kinds=kinds,
        shapes=shapes,
    )
    return whole, refused


def _is_of_slot(query: Query, slot: str) -> bool:
    """Return whether the slot follows the query's tables, or one of them; or it reads models."""
    return not query.slots or any(each in (None, slot) for each in query.slots)


def _lowest_first(queries: Iterable[Query]) -> list[Query]:
    """Return the queries, each after those that it reads."""
    by_table = {query.relation: query for query in queries}
    order = TopologicalSorter(
        {
            query.relation: [table for _, table, _ in query.models if table in by_table]
            for query in by_table.values()
        }
    )
    return [by_table[table] for table in order.static_order()]


class Undone(Exception):
    """Ends a transaction of which nothing stays."""


def compile_one(
    query: Query,
    shapes: Mapping[Table, Mapping[str, Any]],
    compiled: Mapping[Table, Mapping[str, Any]],
    target: Target,
) -> Mapping[str, Any]:
    """Return what the compiler makes of a query, in a transaction. Raises LoaderError."""
    declaration: Mapping[str, Any]
    if query.models:
        known = {str(table): compiled[table] for _, table, _ in query.models if table in compiled}
        relations = Json(_relations(query, shapes))
        named = (query.text, relations, Json(known), Json(query.options))
        ((declaration,),) = target.ask_staging(
            "select {0}.compile_query(%s, {0}.model_inputs(%s, %s), %s)", named
        )
        return declaration
    reading = _reading(query, shapes)
    for source in reading["sources"]:
        if not source["columns"] and "slot" not in source:
            raise TableUnfit(
                f"The table {source['table']} does not exist at the source",
                f"name an existing table in the YAML of the source of {query.path}",
            )
    values = (target.slot, query.name, query.text, Json(reading["sources"]), Json(query.options))
    ((declaration,),) = target.ask_staging("select {}.compile_model(%s, %s, %s, %s, %s)", values)
    return declaration


def _compile_elsewhere(query: Query, target: Target) -> Mapping[str, Any]:
    """Return what the compiler makes of a query over the tables that another slot knows.

    Raises LoaderError where it does not know them.
    """
    declaration: Mapping[str, Any]
    tables = [{"relation": relation, "table": str(table)} for relation, table in query.sources]
    own = (query.slots[0], query.name, query.text, query.slots[0], Json(tables))
    ((declaration,),) = target.ask_staging(_ELSEWHERE, (*own, Json(query.options)))
    return declaration


def _relations(query: Query, shapes: Mapping[Table, Mapping[str, Any]]) -> list[dict[str, Any]]:
    models: list[dict[str, Any]] = [
        {
            "relation": relation,
            "model": str(table),
            "schema": table.schema,
            "name": table.name,
            "materialized": materialized,
        }
        for relation, table, materialized in query.models
    ]
    return [*models, *_reading(query, shapes)["sources"]]


def _reading(query: Query, shapes: Mapping[Table, Mapping[str, Any]]) -> dict[str, Any]:
    sources = [
        {
            "relation": relation,
            "name": table.name,
            "table": str(table),
            "schema": table.schema,
            **shapes[table],
            **({"slot": slot} if len({*query.slots}) > 1 else {}),
        }
        for (relation, table), slot in zip(query.sources, query.slots, strict=True)
    ]
    return {"text": query.text, "sources": sources, "options": dict(query.options)}


def refused_query(query: Query, error: LoaderError) -> LoaderError:
    """Return why the model is refused, in the server's words, with its file and the place."""
    if not isinstance(cause := error.__cause__, psycopg2.Error):
        return error
    place, position = "", cause.diag.internal_position
    if position and cause.diag.internal_query:
        before = cause.diag.internal_query[: int(position) - 1]
        after = cause.diag.internal_query[int(position) - 1 :]
        place = f" at: {before.rpartition(chr(10))[2][-40:]}>{after.partition(chr(10))[0][:40]}"
    reason = " ".join(str(cause.diag.message_primary).split("\n"))
    hint = " ".join((cause.diag.message_hint or "").split("\n"))
    return SettingError(
        f"{query.name}: {reason.rstrip('.')}{place}", f"correct {query.path}. {hint}".strip()
    )
