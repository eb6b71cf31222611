"""The roll-ups of a project, and whether their inputs have what they name. Pure.

The dbt macro resolve_roll_up refuses the same when it builds one: it knows which model each ref()
gave. A manifest says only which models a roll-up names, so setup can refuse it earlier, together
with all other findings, only where no way to read the names is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from waltally.errors import LoaderError, SettingError, combine
from waltally.tables import Table

Nodes = Mapping[str, Mapping[str, Any]]

_WAYS = 10_000
"""How many ways to read a declaration are tried: a model names few others."""


def declared_roll_ups(nodes: Nodes) -> tuple[tuple[str, Table], ...]:
    """Return name and table of the roll-ups among a manifest's nodes. Raises every SettingError."""
    models = {
        str(node["name"]): node for node in nodes.values() if node.get("resource_type") == "model"
    }
    roll_ups = [node for node in models.values() if "waltally_roll_up" in meta(node)]
    wrong: list[LoaderError] = [
        SettingError(f"{node['name']}: {problem}", f"correct {node.get('original_file_path')}")
        for node in roll_ups
        for problem in _problems(models, node)
    ]
    if wrong:
        raise combine(wrong)
    return tuple((str(node["name"]), Table(node["schema"], node["alias"])) for node in roll_ups)


def meta(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the macros of a model have written into its configuration."""
    written: Mapping[str, Any] = node.get("config", {}).get("meta", {})
    return written


def _problems(models: Nodes, node: Mapping[str, Any]) -> Sequence[str]:
    """Return what is wrong with the names as they are written; nothing where another way fits."""
    declared = meta(node)["waltally_roll_up"]
    names = [str(ref["name"]) for ref in node["refs"]]
    as_written = names[: 1 + len(declared["lookups"])]
    problems = list(_misfits(models, declared, *as_written))
    others = islice(product(names, repeat=len(as_written)), _WAYS)
    if problems and any(not list(_misfits(models, declared, *way)) for way in others):
        return []
    return problems


def _misfits(models: Nodes, declared: Mapping[str, Any], fact: str, *rows: str) -> Iterator[str]:
    """Yield what of a declaration does not fit these models."""
    dimensions, measures = _columns(models.get(fact, {}))
    if not measures:
        yield f"fact is {fact}; use ref() of a fact or a roll-up"
        return
    known = list(dimensions)
    for lookup, model in zip(declared["lookups"], rows, strict=True):
        what = f"lookup {lookup['name']}"
        parent = meta(models.get(model, {})).get("waltally", {})
        if parent.get("kind") != "current_rows":
            yield f"rows of {what} is {model}; use ref() of a model of current_rows"
            return
        if set(lookup["by"]) != set(parent["key"]):
            yield (
                f"{what} is by {', '.join(lookup['by'])}; use the key of"
                f" {model}: {', '.join(parent['key'])}"
            )
        yield from _unknown(what, lookup["by"].values(), known)
        known += [f"{lookup['name']}.{column['name']}" for column in parent["dimensions"]]
    for dimension in declared["dimensions"]:
        yield from _unknown(f"dimension {dimension['name']}", [dimension["of"]], known)
    for measure in declared["measures"]:
        usable = measures if measure["kind"] == "sum" else [*known, *measures]
        yield from _unknown(
            f"{measure['kind']} of measure {measure['name']}", [measure["of"]], usable
        )
    if declared["present"]:
        yield from _unknown("present", [declared["present"]], measures)


def _columns(node: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what a roll-up can use of a model: dimensions and measures."""
    declared = meta(node).get("waltally_roll_up") or meta(node).get("waltally", {})
    if declared.get("kind") == "current_rows":
        return [], []
    dimensions, measures = (
        [str(column["name"]) for column in declared.get(part, ())]
        for part in ("dimensions", "measures")
    )
    return dimensions, measures


def _unknown(what: str, columns: Iterable[str], known: Sequence[str]) -> Iterator[str]:
    for column in columns:
        if column not in known:
            yield f"{what} is {column}; use one of {', '.join(known)}"
