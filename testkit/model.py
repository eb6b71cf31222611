"""Models of a dbt project as its manifest holds them, and how they are installed without dbt."""

from __future__ import annotations

import atexit
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Template

from loader.setup.dbt_project import read_manifest
from loader.source.asking_tables import read_current
from loader.source.leaf_catalog import LeafCatalog
from loader.staging.registration import read_registration, register_tables
from testkit.commands import ROOT
from testkit.servers import connect, connect_target
from testkit.source import DIMENSIONS
from waltally.database import Target
from waltally.models import Model
from waltally.tables import Table, quoted

SLOT = "waltally"
_NAMED = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Query:
    """A model whose file is a query."""

    query: str
    """It names its tables as {schema.table}."""
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tables(self) -> list[Table]:
        """The tables that the query reads."""
        return [_table(name) for name in dict.fromkeys(_NAMED.findall(self.query))]

    @property
    def text(self) -> str:
        """The query as dbt compiles it."""
        return _NAMED.sub(lambda named: relation(_table(named[1])), self.query)

    def install(self, target: Target, name: str, is_refresh: bool = True) -> None:
        """Install the model for the target's slot, as dbt does."""
        relations = [{"relation": relation(each), "table": str(each)} for each in self.tables]
        target.ask_staging(
            "select {}.install_query(%s, 'analytics', %s, %s, %s, %s, %s,"
            " 'analytics.rejected_changes', %s)",
            (
                *(target.slot, name, name, self.text, json.dumps(relations)),
                *(json.dumps(self.config), is_refresh),
            ),
        )


def _table(name: str) -> Table:
    return Table(*name.split(".", 1))


def read_model(path: Path) -> Query:
    """Return the model of a file of a dbt project, whose sources are in the schema public."""
    config: dict[str, Any] = {}
    text = Template(path.read_text()).render(
        config=lambda **given: config.update(given) or "",
        source=lambda _, name: f"{{public.{name}}}",
        var=lambda *_: True,
    )
    options = ("timezone", "ignore_deletes", "surrogate_key", "unique_key")
    return Query(text.strip(), {name: config[name] for name in options if name in config})


NOTIFY = read_model(ROOT / "dbt_project/models/marts/ft_service_stats.sql")
"""The model ft_service_stats."""


def counting(table: str, *columns: str, where: str = "true", **totals: str) -> Query:
    """Return the model that counts a table's rows by these columns, and has other totals."""
    keys = [quoted(column) for column in columns]
    named = [f"{total} as {name}" for name, total in totals.items()]
    query = f"select {', '.join([*keys, 'count(*) as row_count', *named])} from {{{table}}}"
    return Query(f"{query} where {where}" + (f" group by {', '.join(keys)}" if keys else ""))


def install_declared(dsn: str, environment: Mapping[str, str]) -> None:
    """Install what LOADER_MANIFEST declares for LOADER_SLOT, as dbt does."""
    if not (manifest := environment.get("LOADER_MANIFEST")):
        return
    queries = read_manifest(Path(manifest)).queries
    slot, schema = environment["LOADER_SLOT"], environment.get("LOADER_SCHEMA") or "cdc"
    with closing(connect_target(dsn, slot, schema)) as target:
        for query in [query for query in queries if not query.models]:
            if any(each not in (None, slot) for each in query.slots):
                continue
            # Who may create in a schema may lack the right to make one: not even `if not exists`.
            place = query.relation.schema
            ((known,),) = target.ask("select to_regnamespace(quote_ident(%s))", (place,))
            if not known:
                target.ask("create schema {}", None, place)
            relations = [
                {"relation": called, "table": str(table)} for called, table in query.sources
            ]
            target.ask_staging(
                "select {}.install_query(%s, %s, %s, %s, %s, %s, %s, %s, false, 'tests', 'tests')",
                (
                    *(slot, query.relation.schema, query.relation.name, query.name, query.text),
                    *(json.dumps(relations), json.dumps(query.options)),
                    f"{quoted(query.relation.schema)}.rejected_changes",
                ),
            )


def register(dsn: str, models: Mapping[str, Query], slot: str = SLOT) -> None:
    """Install these models over tables of the target itself, and note the tables as a loader does.

    The models that were there before and are not among these are forgotten.
    """
    install_declared(dsn, {"LOADER_MANIFEST": str(manifest_of(models)), "LOADER_SLOT": slot})
    with closing(connect(dsn)) as source, closing(connect_target(dsn, slot)) as target:
        for known in read_registration(target).models:
            if known.name not in models:
                target.ask_staging("select {}.forget_relation(%s, %s)", (slot, str(known.relation)))
        now = read_registration(target)
        roots = LeafCatalog(source, now.tables, {}).roots
        identities = read_current(source, now.models)
        register_tables(target, replace(now, leaves=roots), identities, {}, 2**64 - 1)


def registered(dsn: str, slot: str = SLOT) -> tuple[Model, ...]:
    """Return the models that are registered for a slot."""
    with closing(connect_target(dsn, slot)) as target:
        return read_registration(target).models


def parsed(
    name: str, keys: Sequence[str], *tables: str, keeps_deleted: str = "", **more: object
) -> Model:
    """Return the model that counts the rows of these tables by these texts, without a server."""
    columns = [{"name": key, "type": "text", "is_needed": True} for key in keys]
    declaration = {
        "query": "",
        "kind": "fact",
        "sources": [
            {
                "table": table,
                "schema": table.partition(".")[0],
                "columns": columns,
                "keeps_deleted": table == keeps_deleted,
            }
            for table in tables
        ],
        "keys": columns,
        "state_columns": [{"name": "count", "type": "bigint"}],
        "rows": "count",
        "timezone": "UTC",
        **more,
    }
    return Model(name, Table("analytics", name), declaration)


def notify() -> Model:
    """Return ft_service_stats as far as its tables and what it needs of them are concerned."""
    history = "public.notification_history"
    return parsed(
        "ft_service_stats", DIMENSIONS, history, "public.notifications", keeps_deleted=history
    )


def manifest_of(
    models: Mapping[str, Query], schema: str = "analytics", project: str = "tests"
) -> Path:
    """Write a file for LOADER_MANIFEST: these models, by name, as dbt would write them."""
    nodes = [
        node(name, model.text, model.config, model.tables, schema=schema)
        for name, model in models.items()
    ]
    tables = [table for model in models.values() for table in model.tables]
    text = manifest(nodes, tables, project)
    path = _folder() / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
    path.write_text(text)
    return path


def manifest(
    nodes: Sequence[Mapping[str, Any]], tables: Sequence[Table], project: str = "tests"
) -> str:
    """Return the text of a manifest of these models, which read these tables."""
    sources = {
        f"source.tests.{table}": {
            "schema": table.schema,
            "identifier": table.name.replace('"', '""'),
            "relation_name": relation(table),
        }
        for table in tables
    }
    by_name = {f"model.tests.{each['name']}": each for each in nodes}
    metadata = {"project_name": project}
    return json.dumps({"metadata": metadata, "nodes": by_name, "sources": sources})


def node(
    name: str,
    query: str,
    config: Mapping[str, Any],
    tables: Sequence[Table],
    models: Sequence[str] = (),
    schema: str = "analytics",
) -> dict[str, Any]:
    """Return what a manifest has of a model that reads these tables and models."""
    sources = [f"source.tests.{table}" for table in tables]
    return {
        "resource_type": "model",
        **{"name": name, "alias": name, "schema": schema},
        "relation_name": relation(Table(schema, name)),
        "original_file_path": f"models/{name}.sql",
        "config": {"materialized": "waltally", "meta": {}, **config},
        "compiled_code": query,
        "depends_on": {"nodes": sources + [f"model.tests.{model}" for model in models]},
    }


def relation(table: Table) -> str:
    """Return how the queries call a table or a model."""
    return f'"db".{table.quoted}'


@cache
def _folder() -> Path:
    """Make the folder of the manifests, once per test process."""
    made = Path(tempfile.mkdtemp(prefix="waltally-manifests-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
