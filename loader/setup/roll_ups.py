"""What the roll-ups of a dbt project cannot be made of. Pure: no dbt, no driver.

dbt refuses the same when it builds one: while it parses, it does not know the other models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from waltally.errors import LoaderError, SettingError, combine

Nodes = Mapping[str, Mapping[str, Any]]


def check(nodes: Nodes) -> tuple[str, ...]:
    """Return the names of the roll-ups among the nodes of a manifest. Raises every SettingError."""
    models = {
        str(node["name"]): node for node in nodes.values() if node.get("resource_type") == "model"
    }
    found = {name: _meta(node)["waltally_roll_up"] for name, node in models.items() if _is(node)}
    wrong: list[LoaderError] = []
    for name, declared in found.items():
        wrong += [
            SettingError(f"{name}: {said}", f"correct {models[name].get('original_file_path')}")
            for said in _findings(models, models[name], declared)
        ]
    if wrong:
        raise combine(wrong)
    return tuple(sorted(found))


def _findings(models: Nodes, node: Mapping[str, Any], declared: Mapping[str, Any]) -> Iterator[str]:
    fact, *rows = [str(each["name"]) for each in node["refs"][: 1 + len(declared["lookups"])]]
    dimensions, measures = _columns(models.get(fact, {}))
    if not measures:
        yield f"fact is {fact}; it takes ref() of a fact or a roll-up, before lookups"
        return
    known = list(dimensions)
    for lookup, model in zip(declared["lookups"], rows, strict=True):
        said = _meta(models.get(model, {})).get("waltally", {})
        if said.get("kind") != "current_rows":
            yield (
                f"rows of lookup {lookup['name']} is {model}; it takes ref() of a model of"
                " current_rows"
            )
            return
        if set(lookup["by"]) != set(said["key"]):
            yield (
                f"lookup {lookup['name']} is by {', '.join(lookup['by'])}; it takes the key of"
                f" {model}: {', '.join(said['key'])}"
            )
        yield from _unknown(f"lookup {lookup['name']}", lookup["by"].values(), known)
        known += [f"{lookup['name']}.{each['name']}" for each in said["dimensions"]]
    for each in declared["dimensions"]:
        yield from _unknown(f"dimension {each['name']}", [each["of"]], known)
    for each in declared["measures"]:
        takes = measures if each["kind"] == "sum" else [*known, *measures]
        yield from _unknown(f"{each['kind']} of measure {each['name']}", [each["of"]], takes)
    if declared["present"]:
        yield from _unknown("present", [declared["present"]], measures)


def _columns(node: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what a roll-up can take of a model: dimensions and measures."""
    meta = _meta(node)
    said = meta.get("waltally_roll_up") or meta.get("waltally", {})
    if said.get("kind") == "current_rows":
        return [], []
    dimensions, measures = (
        [str(each["name"]) for each in said.get(part, ())] for part in ("dimensions", "measures")
    )
    return dimensions, measures


def _unknown(what: str, columns: Any, known: Sequence[str]) -> Iterator[str]:
    for column in columns:
        if column not in known:
            yield f"{what} is {column}; it takes one of {', '.join(known)}"


def _is(node: Mapping[str, Any]) -> bool:
    return "waltally_roll_up" in _meta(node)


def _meta(node: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = node.get("config", {}).get("meta", {})
    return found
