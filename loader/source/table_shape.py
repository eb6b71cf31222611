"""The shape of source tables: columns and keys, as the database reads a query over them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from waltally.database import Connection
from waltally.tables import Table


@cache
def _query() -> str:
    """Return what the function of the target asks, for a source that has none of our functions."""
    folder = resources.files("loader.staging") / "functions" / "install"
    body = (folder / "table_shape.sql").read_text().split("$$")[1].replace("%", "%%")
    return body.replace("= schema_name", "= %(schema)s").replace("= table_name", "= %(name)s")


def read_shapes(source: Connection, tables: Iterable[Table]) -> dict[Table, dict[str, Any]]:
    """Return the shape of each table; one without columns is not there. Raises LoaderError."""
    names = {table: {"schema": table.schema, "name": table.name} for table in tables}
    return {table: source.ask(_query(), name)[0][0] for table, name in names.items()}
