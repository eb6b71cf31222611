"""The product's own compiler judges each proposed model; nothing stays at the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from psycopg2.extras import Json

from loader.proposing.plan import Compiled, Model, Plan
from loader.setup.compile_queries import Undone, compile_one, refused_query
from loader.setup.query import MATERIALIZED, Query
from loader.source.table_shape import read_shapes
from loader.staging import migrate
from waltally import models
from waltally.database import Connection, Target
from waltally.errors import Interrupted, LoaderError
from waltally.tables import Table

_SCHEMA = "analytics"
"""Any would do: no table is made."""


class Compiler:
    """Compiles a plan's models in a transaction that is rolled back."""

    def __init__(self, source: Connection, target: Target) -> None:
        self.source, self.target = source, target
        self.shapes: dict[Table, Mapping[str, Any]] = {}
        self.compiled: dict[tuple[str, ...], Compiled] = {}
        """By query over the tables and names: several ways may have a model."""

    def __call__(self, plan: Plan) -> None:
        """Compile the models. Raises LoaderError with the compiler's reason."""
        for model in plan.models.values():
            below = (plan.models[mark].name for mark in plan.needed(model.text))
            own = (plan.plain(model.text), model.name, *below)
            if own not in self.compiled:
                self.compiled[own] = self._compile(plan, model)
            model.compiled = self.compiled[own]

    def _compile(self, plan: Plan, model: Model) -> Compiled:
        tables = [str(one.table) for one in plan.tables(model.text)]
        ignored = [name for name in tables if name in plan.ignore_deletes]
        options: dict[str, object] = {"ignore_deletes": ignored} if ignored else {}
        try:
            made = self._ask(plan, model, options)
        except Interrupted:
            raise
        except LoaderError:
            # Where the query's dates depend on the session's zone, the model says it.
            options = {"timezone": plan.catalog.timezone, **options}
            made = self._ask(plan, model, options)
        ((kind, count),) = self.target.ask_staging(
            "select {0}.say_model(%s), (select count(*) from {0}.list_columns(%s))",
            (Json(made), Json(made)),
        )
        return Compiled(
            made,
            kind,
            tuple(key["name"] for key in made["keys"]),
            models.Model(model.name, Table(_SCHEMA, model.name), made).needed,
            max(count - len(model.columns), 0),
            options,
        )

    def _ask(self, plan: Plan, model: Model, options: Mapping[str, object]) -> Mapping[str, Any]:
        tables = [one.table for one in plan.tables(model.text)]
        inputs = [plan.models[mark] for mark in plan.inputs(model.text)]
        below = {Table(_SCHEMA, one.name): one.compiled.declaration for one in inputs}
        text = plan.render(
            model.text, lambda r: _named(r.table), lambda m: _named(Table(_SCHEMA, m.name))
        )
        if unknown := [table for table in tables if table not in self.shapes]:
            self.shapes.update(read_shapes(self.source, unknown))
        query = Query(
            model.name,
            Table(_SCHEMA, model.name),
            "the query",
            text,
            tuple((_named(table), table) for table in tables),
            (None,) * len(tables),
            tuple((_named(table), table, MATERIALIZED) for table in below),
            options,
        )
        self.target.ask("savepoint before")
        try:
            return compile_one(query, self.shapes, below, self.target)
        except Interrupted:
            raise
        except LoaderError as error:
            raise refused_query(query, error) from error
        finally:
            self.target.ask("rollback to savepoint before")


def _named(table: Table) -> str:
    """Return a name as dbt writes it."""
    return f'"db".{table.quoted}'


@contextmanager
def compiler(source: Connection, target: Target) -> Iterator[Compiler]:
    """Give the compiler, installed in a transaction that is rolled back where it is not there."""
    with suppress(Undone), target.transaction():
        if migrate.has_other_functions(target):
            migrate.install(target)
        yield Compiler(source, target)
        raise Undone
