"""Models that are queries, set up as `loader setup` does and installed as dbt does, without dbt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from testkit.comparison import apart
from testkit.system import System
from waltally.tables import Table

DATABASE = '"db"'
"""What the queries call the source's database."""


def named_model(name: str) -> str:
    """Return how a query calls a model."""
    return f"{DATABASE}.{Table('analytics', name).quoted}"


class QuerySystem(System):
    """A source in one schema, its slot, and models over it in schema analytics."""

    schema = "lab"
    models: dict[str, tuple[str, dict[str, Any]]]

    def keep(
        self, models: Mapping[str, tuple[str, Mapping[str, Any]]], is_refresh: bool = True
    ) -> None:
        """Register and install these models and no others: query over {table}, and its config.

        A query may also read {model}, one that comes before it. Those over tables are built again,
        with `is_refresh`.
        """
        relations = self.declare(models)
        self.must("setup")
        self.target.execute("create schema if not exists analytics")
        for name, (query, config) in self.models.items():
            used = [table for table, relation in relations.items() if relation in query]
            if any(named_model(model) in query for model in self.models):
                self._install_above(name)
                continue
            self.target.execute(
                "select cdc.install_query(%s, 'analytics', %s, %s, %s, %s, %s,"
                " 'analytics.rejected_changes', %s)",
                self.slot,
                name,
                name,
                query,
                json.dumps(
                    [
                        {"relation": relations[each], "table": f"{self.schema}.{each}"}
                        for each in used
                    ]
                ),
                json.dumps(config),
                is_refresh,
            )

    def declare(self, models: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
        """Let setup find these models; return by table how the queries name it."""
        tables = [
            name
            for (name,) in self.source.execute(
                "select relname::text from pg_class where relnamespace = %s::regnamespace"
                " and relkind in ('r', 'p') and not relispartition order by 1",
                self.schema,
            )
        ]
        relations = {name: f"{DATABASE}.{Table(self.schema, name).quoted}" for name in tables}
        self.models = {}
        nodes = {}
        for name, (query, config) in models.items():
            used = [table for table in tables if f"{{{table}}}" in query]
            for table in used:
                query = query.replace(f"{{{table}}}", relations[table])
            read = [model for model in models if f"{{{model}}}" in query]
            for model in read:
                query = query.replace(f"{{{model}}}", named_model(model))
            self.models[name] = query, dict(config)
            nodes[f"model.tests.{name}"] = {
                "resource_type": "model",
                "name": name,
                "schema": "analytics",
                "alias": name,
                "relation_name": named_model(name),
                "config": {"materialized": "waltally", "meta": {}, **config},
                "compiled_code": query,
                "depends_on": {
                    "nodes": [
                        *(f"source.tests.{table}" for table in used),
                        *(f"model.tests.{model}" for model in read),
                    ]
                },
            }
        sources = {
            f"source.tests.{table}": {
                "relation_name": relation,
                "schema": self.schema,
                "identifier": table,
            }
            for table, relation in relations.items()
        }
        manifest = {"metadata": {"project_name": "tests"}, "nodes": nodes, "sources": sources}
        path = self.home / "manifest.json"
        path.write_text(json.dumps(manifest))
        self.source.manifest = path
        return relations

    def _install_above(self, name: str) -> None:
        query, config = self.models[name]
        relations = [
            {
                "relation": named_model(model),
                "model": f"analytics.{model}",
                "schema": "analytics",
                "name": model,
                "materialized": "waltally",
            }
            for model in self.models
            if named_model(model) in query
        ]
        self.target.execute(
            "select cdc.install_downstream('tests', 'analytics', %s, %s, %s, %s, %s, null, false)",
            *(name, name, query, json.dumps(relations), json.dumps(config)),
        )

    def catch_up(self) -> None:
        """Stage what is committed, and apply it."""
        self.must("run", "--once")
        self.apply()

    def compare(self, one: str, other: str) -> list[tuple[Any, ...]]:
        """Return the rows that one query gives and the other does not, and the other way round."""
        return self.target.execute(apart(one, other))
