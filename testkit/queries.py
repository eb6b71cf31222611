"""Models that are queries, set up as `loader setup` does and installed as dbt does, without dbt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loader.setup.dbt_project import read_manifest
from testkit.comparison import apart
from testkit.model import manifest, node, relation
from testkit.system import System
from waltally.tables import Table


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
        self.declare(models)
        self.must("setup")
        self.target.execute("create schema if not exists analytics")
        read = {query.name: query for query in read_manifest(self.source.manifest).queries}
        for name, (text, config) in self.models.items():
            if read[name].models:
                self.install_above(name)
                continue
            tables = [
                {"relation": called, "table": str(table)} for called, table in read[name].sources
            ]
            self.target.execute(
                "select cdc.install_query(%s, 'analytics', %s, %s, %s, %s, %s,"
                " 'analytics.rejected_changes', %s)",
                *(self.slot, name, name, text, json.dumps(tables), json.dumps(config), is_refresh),
            )

    def install_above(self, name: str, schema: str = "analytics") -> None:
        """Install a model over models, as it is declared."""
        read = {query.name: query for query in read_manifest(self.source.manifest).queries}
        relations = [
            {
                **{"relation": called, "model": str(model), "materialized": kind},
                **{"schema": model.schema, "name": model.name},
            }
            for called, model, kind in read[name].models
        ]
        text, config = self.models[name]
        self.target.execute(
            "select cdc.install_downstream('tests', %s, %s, %s, %s, %s, %s, null, false)",
            *(schema, name, name, text, json.dumps(relations), json.dumps(config)),
        )

    def declare(self, models: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        """Let setup find these models."""
        tables = [
            Table(self.schema, name)
            for (name,) in self.source.execute(
                "select relname::text from pg_class where relnamespace = %s::regnamespace"
                " and relkind in ('r', 'p') and not relispartition order by 1",
                self.schema,
            )
        ]
        places = {name: Table("analytics", name) for name in models}
        places |= {table.name: table for table in tables}
        self.models = {}
        nodes = []
        for name, (query, config) in models.items():
            used = [place for place in places if f"{{{place}}}" in query]
            for place in used:
                query = query.replace(f"{{{place}}}", relation(places[place]))
            self.models[name] = query, dict(config)
            read = [table for table in tables if table.name in used]
            above = [place for place in used if places[place] not in tables]
            nodes.append(node(name, query, config, read, above))
        self.source.manifest = self.home / "manifest.json"
        self.source.manifest.write_text(manifest(nodes, tables))

    def catch_up(self) -> None:
        """Stage what is committed, and apply it."""
        self.must("run", "--once")
        self.apply()

    def compare(self, one: str, other: str) -> list[tuple[Any, ...]]:
        """Return the rows that one query gives and the other does not, and the other way round."""
        return self.target.execute(apart(one, other))
