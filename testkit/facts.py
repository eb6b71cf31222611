"""Declarations as dbt's manifest holds them, and their registration without dbt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from testkit.servers import connect
from waltally import facts
from waltally.tables import Table

SLOT = "waltally"


def column(name: str, type_: str, **more: Any) -> dict[str, Any]:
    """Return a dimension that is a column."""
    return {
        "name": name,
        "type": type_,
        "kind": "column",
        "column": name,
        "unit": None,
        "timezone": None,
        "column_timezone": None,
        "path": [],
        "bounds": [],
        "labels": {},
        "other_label": None,
        "value_type": type_,
        "nulls": "leave_out",
        **more,
    }


def day(name: str, of: str, timezone: str, **more: Any) -> dict[str, Any]:
    """Return a dimension that is the day of a column in a time zone."""
    zones = {"timezone": timezone, "column_timezone": "UTC"}
    return column(name, "date", **{"kind": "period", "unit": "day", "column": of, **zones, **more})


def condition(column: str, test: str, *values: str | None) -> dict[str, Any]:
    """Return a condition of rows."""
    is_null = True if test == "is_null" else None
    return {"column": column, "test": test, "values": list(values), "is_null": is_null}


def table(name: str, schema: str, relation: str, deletes: str = "count") -> dict[str, Any]:
    """Return a table of a fact, whose columns have the names of the declaration."""
    place = {"schema": schema, "table": relation}
    return {"name": name, **place, "deletes": deletes, "columns": {}}


def count(name: str, of: str) -> dict[str, Any]:
    """Return a measure that counts the rows of a table."""
    how = {"kind": "count", "columns": [], "type": "bigint", "where": []}
    return {"name": name, "of": [of], **how}


NOTIFY: dict[str, Any] = {
    "version": 1,
    "kind": "fact",
    "tables": [
        table("live", "public", "notifications"),
        table("archived", "public", "notification_history", "ignore"),
    ],
    "dimensions": [
        column("service_id", "uuid"),
        column("template_id", "uuid"),
        column("notification_type", "text"),
        column("notification_status", "text"),
    ],
    "measures": [count("live_count", "live"), count("archived_count", "archived")],
    "where": [],
    "key": [],
}
"""What the model ft_service_stats declares."""


def notify(schema: str = "analytics") -> facts.Fact:
    """Return the fact ft_service_stats in this dbt schema."""
    return facts.parse("ft_service_stats", Table(schema, "ft_service_stats"), NOTIFY)


def register(
    dsn: str,
    declaration: Mapping[str, Any] = NOTIFY,
    name: str = "ft_service_stats",
    *,
    dbt_schema: str = "analytics",
    schema: str = "cdc",
    slot: str = SLOT,
) -> None:
    """Register a fact as `loader setup` does, without dbt."""
    fact = facts.parse(name, Table(dbt_schema, name), declaration)
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            f'insert into "{schema}".fact (slot_name, fact_name, declaration, needed,'
            " relation_schema, relation_name) values (%s, %s, %s, %s, %s, %s)"
            " on conflict (slot_name, fact_name) do update set declaration = excluded.declaration,"
            " needed = excluded.needed, relation_schema = excluded.relation_schema,"
            " relation_name = excluded.relation_name",
            (slot, name, json.dumps(declaration), json.dumps(fact.needed), dbt_schema, name),
        )
        for each in facts.source_tables([fact]):
            cursor.execute(
                f'insert into "{schema}".logged_table (slot_name, table_schema, table_name)'
                " values (%s, %s, %s) on conflict do nothing",
                (slot, each.schema, each.name),
            )


SLOT_DIMENSION: dict[str, Any] = column("source", "text", kind="slot", column=None)
"""Tells apart the rows of several slots."""


def summed(column: str, name: str = "paid") -> dict[str, Any]:
    """Return a measure that adds up a numeric column."""
    return {
        **{"name": name, "kind": "sum", "columns": [column], "of": ["rows"]},
        **{"type": "numeric", "where": []},
    }


def declare(relation: str, *columns: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Return the declaration of a fact that counts one table by these (column, type) pairs."""
    schema, _, name = relation.rpartition(".")
    return {
        **NOTIFY,
        "tables": [table("rows", schema or "public", name)],
        "dimensions": [column(*each) for each in columns],
        "measures": [count("row_count", "rows")],
        **more,
    }
