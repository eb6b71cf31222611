"""The models of a dbt project that are queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from waltally.errors import SettingError
from waltally.tables import Table

MATERIALIZED = "waltally"
_OPTIONS = ("timezone", "unique_key", "ignore_deletes", "surrogate_key")


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
    options: Mapping[str, Any]
    """What its config says: see cdc.compile_query."""


def has_queries(nodes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether a model among the manifest's nodes is a query."""
    return any(map(_is_query, nodes.values()))


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
        named = [sources[name] for name in _sources_of(node, nodes, sources)]
        options = {name: node["config"][name] for name in _OPTIONS if node["config"].get(name)}
        if isinstance(options.get("unique_key"), str):
            options["unique_key"] = [options["unique_key"]]
        queries.append(
            Query(
                str(node["name"]),
                Table(node["schema"], node["alias"]),
                str(node.get("original_file_path", "its file")),
                node["compiled_code"],
                tuple((source["relation_name"], _table(source)) for source in named),
                options,
            )
        )
    return tuple(sorted(queries, key=lambda query: query.name))


def _table(source: Mapping[str, Any]) -> Table:
    """Return a source's table. dbt doubles no quotation mark in a name: the YAML does."""
    schema, name = (source[part].replace('""', '"') for part in ("schema", "identifier"))
    return Table(schema, name)


def _sources_of(
    node: Mapping[str, Any],
    nodes: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return the sources that a query reads, by itself or by what dbt writes into it."""
    names: dict[str, None] = {}
    for name in node["depends_on"]["nodes"]:
        if name in sources:
            names[name] = None
        elif nodes.get(name, {}).get("config", {}).get("materialized") == "ephemeral":
            names.update(dict.fromkeys(_sources_of(nodes[name], nodes, sources)))
    return list(names)
