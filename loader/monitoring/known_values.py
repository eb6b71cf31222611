"""Which values a dimension has, for somebody who asked for one that it does not have."""

from __future__ import annotations

from psycopg2 import extensions, sql

from loader.monitoring.stats_query import Query
from waltally.tables import Table

_MOST_VALUES = 10
_MOST_ROWS = 100_000
"""Of a fact with more, some values are shown: the answer must not take seconds."""


def unknown_values(cursor: extensions.cursor, query: Query, relation: Table) -> list[str]:
    """Return a sentence for each value that no group has, with the values that there are."""
    types = {each.name: each.type for each in query.fact.dimensions}
    said = []
    for name, value in query.where.items():
        place = {
            "column": sql.Identifier(name),
            "table": sql.Identifier(relation.schema, relation.name),
            "type": sql.SQL(types[name]),
            "value": sql.Literal(value),
            "most_rows": sql.Literal(_MOST_ROWS),
            "most_values": sql.Literal(_MOST_VALUES + 1),
        }
        cursor.execute(
            sql.SQL(
                "select exists (select from {table} where {column} = {value}::{type}), "
                "array(select distinct {column}::text from (select {column} from {table} "
                "limit {most_rows}) as some_rows where {column} is not null "
                "order by 1 limit {most_values})"
            ).format(**place)
        )
        ((is_there, values),) = cursor.fetchall()
        if not is_there:
            more = ", …" if len(values) > _MOST_VALUES else ""
            there = ", ".join(values[:_MOST_VALUES]) + more or "none"
            said.append(f"No group has {name} = {value}. The values are: {there}")
    return said
