"""Declarations as dbt's manifest holds them, and their registration without dbt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from tests.support.servers import connect
from waltally import facts
from waltally.tables import Table

SLOT = "notify_dashboard_replication_slot"


def column(name: str, type_: str, **more: Any) -> dict[str, Any]:
    """Return a dimension that is a column."""
    return {
        "name": name,
        "type": type_,
        "kind": "column",
        "column": name,
        "timezone": None,
        "column_timezone": None,
        "nulls": "leave_out",
        **more,
    }


NOTIFY: dict[str, Any] = {
    "version": 1,
    "kind": "fact",
    "tables": [
        {
            "name": "live",
            "schema": "public",
            "table": "notifications",
            "deletes": "count",
            "columns": {},
        },
        {
            "name": "archived",
            "schema": "public",
            "table": "notification_history",
            "deletes": "ignore",
            "columns": {},
        },
    ],
    "dimensions": [
        column("service_id", "uuid"),
        column("template_id", "uuid"),
        column("notification_type", "text"),
        column("notification_status", "text"),
    ],
    "measures": [
        {
            "name": f"{part}_count",
            "kind": "count",
            "column": None,
            "of": [part],
            "type": "bigint",
        }
        for part in ("live", "archived")
    ],
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
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            f'insert into "{schema}".fact (slot_name, fact_name, declaration, relation_schema,'
            " relation_name) values (%s, %s, %s, %s, %s)"
            " on conflict (slot_name, fact_name) do update set declaration = excluded.declaration,"
            " relation_schema = excluded.relation_schema, relation_name = excluded.relation_name",
            (slot, name, json.dumps(declaration), dbt_schema, name),
        )
