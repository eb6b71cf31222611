"""The facts that a dbt project declares, read from its manifest. Pure: no dbt, no driver."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waltally.errors import LoaderError, SettingError, combine
from waltally.facts import VERSION, Fact, parse
from waltally.tables import Table


@dataclass(frozen=True)
class Declared:
    """What a dbt project declares."""

    project: str
    """Its name."""
    facts: tuple[Fact, ...]


def read_manifest(path: Path) -> Declared:
    """Return what the manifest declares that dbt wrote to a file. Raises SettingError."""
    try:
        manifest = json.loads(path.read_text())
        nodes, project = manifest["nodes"], manifest["metadata"]["project_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingError(
            f"{path} is not a manifest of dbt: {type(error).__name__} ({error})",
            "`dbt parse` writes target/manifest.json; name it by --manifest or LOADER_MANIFEST",
        ) from error
    return Declared(project, declared_facts(nodes))


def declared_facts(nodes: Mapping[str, Mapping[str, Any]]) -> tuple[Fact, ...]:
    """Return the facts among the nodes of a manifest, by name.

    Raises every SettingError at once: two models of one name, a declaration of another version,
    tables and indexes that cannot have their names.
    """
    found: dict[str, Fact] = {}
    places: dict[str, str] = {}
    wrong: list[LoaderError] = []
    for node in nodes.values():
        declaration = node.get("config", {}).get("meta", {}).get("waltally")
        if node.get("resource_type") != "model" or declaration is None:
            continue
        name, place = node["name"], node.get("original_file_path", "")
        if declaration.get("version") != VERSION:
            wrong.append(_other_version(name, declaration.get("version")))
        elif name in found:
            wrong.append(
                SettingError(
                    f"Two models are named {name}: {places[name]} and {place}",
                    "rename one of them, or disable it in dbt_project.yml",
                )
            )
        else:
            found[name] = parse(name, Table(node["schema"], node["alias"]), declaration)
            places[name] = place
    facts = tuple(found[name] for name in sorted(found))
    wrong += _misnamed(facts)
    if wrong:
        raise combine(wrong)
    return facts


def _misnamed(facts: Sequence[Fact]) -> Iterator[SettingError]:
    """Yield which tables and indexes cannot have the names that dbt would give them."""
    taken: dict[Table, str] = {}
    for fact in facts:
        schema, name = fact.relation.schema, fact.relation.name
        keys = [f"uix_{name}_dimensions"] if fact.kind == "fact" else []
        for made in (name, f"{name}_pkey", *keys):
            if len(made.encode()) > 63:
                yield SettingError(
                    f"The model {fact.name} would make {made}, and a name has at most 63 bytes",
                    "give the model a shorter name or alias",
                )
            other = taken.setdefault(Table(schema, made), fact.name)
            if other != fact.name:
                yield SettingError(
                    f"The models {other} and {fact.name} would both make {schema}.{made}, as a "
                    "table or an index",
                    "give one of them another name or alias",
                )


def _other_version(name: str, version: object) -> SettingError:
    return SettingError(
        f"The model {name} declares its fact in version {version}, this loader knows {VERSION}",
        "use the loader and the dbt package of one release of waltally",
    )
