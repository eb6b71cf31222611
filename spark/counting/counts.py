"""Counts rows by group. Pure: DataFrame to DataFrame, no driver."""

from __future__ import annotations

from deltas import rules
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType

from waltally.tables import DIMENSIONS

COLUMNS = ("source_table", *DIMENSIONS, "row_count")

INCOMING = (*COLUMNS, "purged_count", "reason")
"""The columns of the incoming table: a group's rows, the purged rows that the fact has besides,
and why the group cannot be counted, null where it can."""

NULL_DIMENSION = "a dimension is null"
"""The reason of rows that the stream leaves out too, without rejecting them."""

_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"
_EXAMPLE_LENGTH = 100


def dimensions(rows: DataFrame, source_table: str) -> DataFrame:
    """Return the four dimensions of any rows as text, with the table's name."""
    return rows.select(
        sql.lit(source_table).alias("source_table"),
        *(_text(rows, name).alias(name) for name in DIMENSIONS),
    )


def _text(rows: DataFrame, name: str) -> Column:
    """Return the column as text: 16 bytes as a uuid, other bytes as the text of a bytea."""
    if _is_binary(rows, name):
        digits = sql.lower(sql.hex(rows[name]))
        if name not in rules.UUIDS:
            return digits
        return sql.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")
    return rows[name].cast("string")


def _is_binary(rows: DataFrame, name: str) -> bool:
    return isinstance(rows.schema[name].dataType, BinaryType)


def count_groups(rows: DataFrame) -> DataFrame:
    """Return the number of rows per table and group, with the columns COLUMNS and `reason`.

    `reason` says why a group cannot be counted, null where it can: the reasons of rules.classify,
    and NULL_DIMENSION. Long values of a group that cannot be counted are cut.
    """
    groups = _grouped(rows)
    reason = sql.when(groups["row_count"].isNull(), "")
    for name in DIMENSIONS:
        reason = reason.when(groups[name].isNull(), NULL_DIMENSION)
    for name in DIMENSIONS:
        if name in rules.UUIDS:
            reason = reason.when(~groups[name].rlike(_UUID), f"the value of {name} is not a uuid")
    for name in DIMENSIONS:
        if name not in rules.UUIDS:
            reason = reason.when(
                sql.octet_length(name) > rules.LONGEST,
                f"the value of {name} is longer than {rules.LONGEST} bytes",
            )
    found = groups.withColumn("reason", reason)
    cut = {
        name: sql.when(found["reason"].isNull(), found[name]).otherwise(
            sql.substring(found[name], 1, _EXAMPLE_LENGTH)
        )
        for name in DIMENSIONS
    }
    return found.withColumns(cut)


def _grouped(rows: DataFrame) -> DataFrame:
    """Return the number of rows per group.

    Ids that are text are compared without regard to case, as uuids are. Binary ids become text
    after counting, once per group.
    """
    texts = [name for name in rules.UUIDS if not _is_binary(rows, name)]
    counted = (
        rows.withColumns({name: sql.lower(name) for name in texts})
        .groupBy("source_table", *DIMENSIONS)
        .agg(sql.count("*").alias("row_count"))
    )
    return counted.withColumns({name: _text(counted, name) for name in DIMENSIONS})
