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
        """Install these models and no others: query over {table}, and its config.

        A query may also read {model}, one that comes before it. Those over tables are built again,
        with `is_refresh`.
        """
        self.declare(models)
        known = (
            "select model_name from cdc.installed_model"
            " union select model_name from cdc.dependent_model"
            " where declaration ->> 'kind' <> 'changes'"
        )
        if self.target.value("select to_regclass('cdc.installed_model')"):
            for (name,) in self.target.execute(known):
                if name not in models:
                    self.must("forget", name)
        self.must("setup")
        read = {query.name: query for query in read_manifest(self.source.manifest).queries}
        for name in self.models:
            if read[name].models:
                self.install_dependents(name)
            else:
                self.install(name, is_refresh=is_refresh)

    def install_declared(self, environment: Mapping[str, str]) -> None:
        """Leave it to `keep`."""

    def install(
        self, name: str, schema: str = "analytics", is_refresh: bool = False, target: str = ""
    ) -> None:
        """Install a model over tables, as it is declared; of another target it is a copy."""
        [read] = [q for q in read_manifest(self.source.manifest).queries if q.name == name]
        tables = [{"relation": called, "table": str(table)} for called, table in read.sources]
        text, config = self.models[name]
        self.target.execute(f"create schema if not exists {schema}")
        self.target.execute(
            "select cdc.install_query(%s, %s, %s, %s, %s, %s, %s, %s, %s, 'tests', %s)",
            *(self.slot, schema, name, name, text, json.dumps(tables), json.dumps(config)),
            *(
                f"{schema}.rejected_changes",
                is_refresh,
                target or schema,
            ),
        )

    def install_dependents(self, name: str, schema: str = "analytics") -> None:
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
            "select cdc.install_dependent('tests', %s, %s, %s, %s, %s, %s, null, false)",
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
            inputs = [place for place in used if places[place] not in tables]
            nodes.append(node(name, query, config, read, inputs))
        self.source.manifest = self.home / "manifest.json"
        self.source.manifest.write_text(manifest(nodes, tables))

    def differing(self, *models: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return which models, or which of these, do not equal their queries, and in what rows."""
        found = {}
        for name in models or self.models:
            query = self.models[name][0].replace('"db".', "")
            with self.target.connection.cursor() as cursor:
                cursor.execute(f"{query} limit 0")
                columns = ", ".join(f'"{column.name}"::text' for column in cursor.description or ())
            rows = self.compare(
                f"select {columns} from analytics.{name}", f"select {columns} from ({query}) as q"
            )
            found.update({name: rows} if rows else {})
        return found

    def compare(self, one: str, other: str) -> list[tuple[Any, ...]]:
        """Return the rows that one query gives and the other does not, and the other way round."""
        return self.target.execute(apart(one, other))
