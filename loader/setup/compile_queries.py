"""Compiles the models that are queries: the target reads them over the source's columns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg2
from psycopg2.extras import Json

from loader.setup.declared import Declared
from loader.setup.query import Query
from loader.source.table_shape import read_shapes
from loader.staging import migrate
from waltally.database import Connection, Target
from waltally.errors import LoaderError, SettingError
from waltally.facts import Fact, parse
from waltally.tables import Table


def compile_queries(
    declared: Declared, source: Connection, target: Target
) -> tuple[Declared, list[LoaderError]]:
    """Return what is declared with the queries among the facts, as the target reads them.

    With it comes why others are refused. Nothing of it stays in the target.
    """
    if not declared.queries:
        return declared, []
    tables = {table for query in declared.queries for _, table in query.sources}
    shapes = read_shapes(source, sorted(tables, key=str))
    facts: list[Fact] = []
    refused: list[LoaderError] = []
    with suppress(_Undone), target.transaction():
        if migrate.has_other_functions(target):
            migrate.install(target)
        for query in declared.queries:
            target.ask("savepoint before")
            try:
                facts.append(_compile(query, shapes, target))
            except LoaderError as error:
                refused.append(_of_model(query, error))
            target.ask("rollback to savepoint before")
        raise _Undone
    known = tuple(sorted((*declared.facts, *facts), key=lambda fact: fact.name))
    readings = {query.name: _reading(query, shapes) for query in declared.queries}
    return replace(declared, facts=known, readings=readings, shapes=shapes), refused


class _Undone(Exception):
    """Ends a transaction of which nothing stays."""


def _compile(query: Query, shapes: Mapping[Table, Mapping[str, Any]], target: Target) -> Fact:
    reading = _reading(query, shapes)
    for source in reading["sources"]:
        if not source["columns"]:
            raise SettingError(
                f"The table {source['table']} does not exist at the source",
                "name an existing table in the source's YAML",
            )
    values = (target.slot, query.name, query.text, Json(reading["sources"]), Json(query.options))
    ((declaration,),) = target.ask_staging("select {}.compile_model(%s, %s, %s, %s, %s)", values)
    return parse(query.name, query.relation, declaration)


def _reading(query: Query, shapes: Mapping[Table, Mapping[str, Any]]) -> dict[str, Any]:
    sources = [
        {
            "relation": relation,
            "name": table.name,
            "table": str(table),
            "schema": table.schema,
            **shapes[table],
        }
        for relation, table in query.sources
    ]
    return {"text": query.text, "sources": sources, "options": dict(query.options)}


def _of_model(query: Query, error: LoaderError) -> LoaderError:
    """Return why the model is refused, in the server's words, with its file and the place."""
    if not isinstance(cause := error.__cause__, psycopg2.Error):
        return SettingError(f"{query.name}: {error}", f"correct {query.path}. {error.remedy}")
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
