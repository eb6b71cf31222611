"""The models of a dbt project that are queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waltally.errors import SettingError
from waltally.tables import Table

MATERIALIZED = "waltally"
_OPTIONS = ("timezone", "unique_key", "ignore_deletes", "surrogate_key", "engine", "changes")


@dataclass(frozen=True)
class Query:
    """A model whose file is a query."""

    name: str
    relation: Table
    path: str
    """Its file in the project."""
    text: str
    """The query, as dbt compiles it."""
    sources: tuple[tuple[str, Table], ...]
    """The tables that it reads, each with its name as the text has it."""
    slots: tuple[str | None, ...]
    """The slot of each table; None where the project leaves it to LOADER_SLOT."""
    models: tuple[tuple[str, Table, str], ...]
    """The models that it reads: the name in the text, the table, and how it is materialized."""
    options: Mapping[str, Any]
    """What its config says: see cdc.compile_query."""


def _is_query(node: Mapping[str, Any]) -> bool:
    return (
        node.get("resource_type") == "model"
        and node.get("config", {}).get("materialized") == MATERIALIZED
    )


def declared_queries(
    nodes: Mapping[str, Mapping[str, Any]], sources: Mapping[str, Mapping[str, Any]]
) -> tuple[Query, ...]:
    """Return the queries among a manifest's nodes. Raises SettingError without compiled code."""
    queries = []
    for node in filter(_is_query, nodes.values()):
        if not node.get("compiled_code"):
            raise SettingError(
                f"The manifest has no compiled query of {node['name']}",
                "write it by `dbt compile` in place of `dbt parse`",
            )
        inputs = _inputs_of(node, nodes)
        named = [sources[name] for name in inputs if name in sources]
        queries.append(
            Query(
                _name(node),
                Table(node["schema"], node["alias"]),
                str(node.get("original_file_path", "its file")),
                node["compiled_code"],
                tuple((source["relation_name"], _table(source)) for source in named),
                tuple(source.get("config", {}).get("meta", {}).get("slot") for source in named),
                tuple(_model(nodes[name]) for name in inputs if name in nodes),
                _options(node),
            )
        )
    return tuple(sorted(queries, key=lambda query: query.name))


def _options(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the macro list_options gives to dbt's own call."""
    config = node["config"]
    options = {name: config[name] for name in _OPTIONS if config.get(name)}
    if isinstance(options.get("unique_key"), str):
        options["unique_key"] = [options["unique_key"]]
    if config.get("contract", {}).get("enforced"):
        columns = node["columns"].values()
        options["contract"] = {column["name"]: column["data_type"] for column in columns}
    return options


def _name(node: Mapping[str, Any]) -> str:
    """Return the model's name, or a version's. The macro get_model_name says the same."""
    version = node.get("version")
    return str(node["name"]) if version is None else f"{node['name']}_v{version}"


def _table(source: Mapping[str, Any]) -> Table:
    """Return a source's table. dbt doubles no quotation mark in a name: the YAML does."""
    schema, name = (source[part].replace('""', '"') for part in ("schema", "identifier"))
    return Table(schema, name)


def _model(node: Mapping[str, Any]) -> tuple[str, Table, str]:
    materialized = node["config"].get("materialized", node["resource_type"])
    return node["relation_name"], Table(node["schema"], node["alias"]), materialized


def _inputs_of(node: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what a query reads, by itself or by what dbt writes into it."""
    names: dict[str, None] = {}
    for name in node["depends_on"]["nodes"]:
        if nodes.get(name, {}).get("config", {}).get("materialized") == "ephemeral":
            names.update(dict.fromkeys(_inputs_of(nodes[name], nodes)))
        else:
            names[name] = None
    return list(names)
