"""Rows to counts: pure functions from DataFrame to DataFrame."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType

from loader.tables import DIMENSIONS

COLUMNS = ("source_table", *DIMENSIONS, "row_count")


def dimensions(rows: DataFrame, source_table: str) -> DataFrame:
    """Return the four dimensions of any rows as text, under the table's name."""
    return rows.select(
        sql.lit(source_table).alias("source_table"),
        *(_text(rows, name).alias(name) for name in DIMENSIONS),
    )


def _text(rows: DataFrame, name: str) -> Column:
    """The server's uuids and Parquet's own arrive as 16 bytes."""
    if _is_binary(rows, name):
        return sql.regexp_replace(
            sql.lower(sql.hex(rows[name])), "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5"
        )
    return rows[name].cast("string")


def _is_binary(rows: DataFrame, name: str) -> bool:
    return isinstance(rows.schema[name].dataType, BinaryType)


def count_by_dimension(rows: DataFrame) -> DataFrame:
    """Return how many rows each table has of each service, template, type and status.

    A row with a null dimension belongs to no service and is left out, as the stream leaves it out.
    Ids are compared as uuids are: without regard to case. Binary ones become text once a group.
    """
    texts = [name for name in ("service_id", "template_id") if not _is_binary(rows, name)]
    counted = (
        rows.dropna(subset=list(DIMENSIONS))
        .withColumns({name: sql.lower(name) for name in texts})
        .groupBy("source_table", *DIMENSIONS)
        .agg(sql.count("*").alias("row_count"))
    )
    return counted.withColumns({name: _text(counted, name) for name in DIMENSIONS})
