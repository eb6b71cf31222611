"""The text of a dbt project's files: names, sources.yml, descriptions. Pure: no driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from textwrap import indent

import yaml

from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import Table


def plain(name: str) -> str:
    """Return a name that needs no quotes; empty where nothing is left of it."""
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")


def source_call(table: Table) -> str:
    """Return what a model calls the table."""
    return f"source({_known_as(table.schema)!r}, {_known_as(table.name)!r})"


def _known_as(name: str) -> str:
    """Return a name by which dbt finds a source; of an odd one what is plain, and a mark."""
    if re.fullmatch(r"\w(?:[\w -]*\w)?", name):
        return name
    return f"{plain(name)}_{sha256(name.encode()).hexdigest()[:6]}"


def source_yaml(text: str, table: Table) -> str:
    """Return sources.yml with the table added. Raises SettingError where it has another form."""
    # `dbt docs` writes the names of sources into SQL as they are.
    if escaped(str(table)) != str(table) or "'" in str(table):
        raise SettingError(
            f"The name of {table} has a ' or a control character, which a source cannot have",
            "rename it",
        )
    known = _sources(text)
    names = _known_as(table.schema), _known_as(table.name)
    if names in known:
        return text
    source, named = _declared("schema", table.schema), _declared("identifier", table.name)
    head = text.rstrip() or "version: 2\nsources:"
    # To the last source where it has this schema, else a source more.
    for depth, added in ((4, named), (2, {**source, "tables": [named]})):
        lines = yaml.safe_dump([added], sort_keys=False, allow_unicode=True, width=1000)
        new = f"{head}\n{indent(lines, ' ' * depth)}"
        if _sources(new) == [*known, names]:
            return new
    raise SettingError(
        f"models/sources.yml has another form than `loader init` writes, and lacks {table}",
        f"add it: the source {table.schema}, the table {table.name}",
    )


def _declared(key: str, name: str) -> dict[str, object]:
    """Return how the YAML names it. dbt puts quotation marks around a name, and doubles none."""
    known_as = _known_as(name)
    true = {} if known_as == name else {key: rendered(name.replace('"', '""'))}
    return {"name": known_as, **true}


def _sources(text: str) -> list[tuple[object, object]]:
    """Return source and table of each that the YAML names, as it writes them."""
    try:
        declared = yaml.safe_load(text) or {}
        return [
            (source["name"], table["name"])
            for source in declared.get("sources") or []
            for table in source.get("tables") or []
        ]
    except (yaml.YAMLError, AttributeError, TypeError, KeyError):
        return []


def described(name: str, about: str, meanings: Mapping[str, str] | None = None) -> str:
    """Return the YAML that describes a model, and its columns.

    dbt renders names and descriptions, and once more where a test is added. So a column whose name
    could be Jinja has none.
    """
    columns = [
        {"name": column, "description": meaning}
        for column, meaning in (meanings or {}).items()
        if not set("{}") & set(column)
    ]
    model = {"name": name, "description": about, **({"columns": columns} if columns else {})}
    text: str = yaml.safe_dump(
        {"version": 2, "models": [model]}, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def rendered(text: str) -> str:
    """Return what dbt renders as the text: it would run a name in braces as Jinja."""
    return f"{{{{ {text!r} }}}}" if set("{}") & set(text) else text
