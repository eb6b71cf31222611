"""The tables of odd types and the models over them, by the database and by Spark."""

from __future__ import annotations

from typing import Any

from testkit.queries import QuerySystem
from tests.queries.odd import TABLES

LAB = (
    "create schema lab;"
    """create type lab.mood as enum ('sad', 'ok', 'it''s', 'Ünder "x"');"""
    "create domain lab.amount as numeric(12, 2); create domain lab.blob as bytea;"
    + TABLES
    + "alter table lab.a alter cash type text, replica identity full; alter table lab.b replica identity full"
)
NAMES = (
    *("by_day", "total", "total_of_two", "of_two", "purged", "purged_alone", "twice", "tags"),
    *("division", "numbers_in_texts", "odd_names", "floats", "enums", "null_sum", "long_keys"),
    "collated_columns",
)
KEPT = {
    "rows": "select to_jsonb(t)::text from {0} as t order by 1",
    "rejected": "select commit_lsn::text, ordinal, action, reason from analytics.rejected_changes"
    " where model_name = '{0}' order by 1, 2, 3",
    "deletes": "select part, commit_lsn::text, dimensions, ordinal, sum(measure)"
    " from cdc.ignored_delete cross join unnest(measures) with ordinality as u (measure, ordinal)"
    " where relation = '{0}' group by 1, 2, 3, 4 order by 1, 2, 3, 4",
    "mark": "select applied_lsn::text, rejected_lsn::text from cdc.model_watermark"
    " where relation = '{0}'",
}


def kept(system: QuerySystem, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """All that an apply writes."""
    return {
        what: system.target.execute(query.format(f"analytics.{name}"))
        for what, query in KEPT.items()
    }
