"""The rows of a replayed fact as its table has them. Pure: DataFrame to DataFrame, no driver."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waltally.facts import Dimension, Fact

MAX_DIGITS = 38
"""Of Spark's decimals."""


def as_rows(groups: DataFrame, fact: Fact) -> DataFrame:
    """Return the groups with the columns that the fact's table has, but the derived ones.

    Dimensions are texts. A measure is a whole number, a decimal where its type says how large, else
    a number's text.
    """
    dimensions = [
        sql.get("dimensions", place).alias(each.name) for place, each in enumerate(fact.dimensions)
    ]
    if fact.kind == "current_rows":
        return groups.select(*dimensions)
    measures = [
        sql.get("sums", place).cast(_spark_type(each.type)).alias(each.name)
        for place, each in enumerate(fact.measures)
    ]
    return groups.select(row_id(fact).alias("id"), *dimensions, *measures)


def row_id(fact: Fact) -> Column:
    """Return the id that the fact gives a group: md5(row(its dimensions)::text)::uuid."""
    values = [_in_row(place, each) for place, each in enumerate(fact.dimensions)]
    separated = [part for value in values for part in (sql.lit(","), value)][1:]
    text = sql.concat(sql.lit("("), *separated, sql.lit(")"))
    return sql.regexp_replace(sql.md5(text), "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")


def _in_row(place: int, dimension: Dimension) -> Column:
    """Return the value as PostgreSQL prints it within a row; null is nothing at all."""
    value = sql.get("dimensions", place)
    if dimension.type == "boolean":
        # As its output function prints it; the text of a dimension is that of the cast.
        value = sql.substring(value, 1, 1)
    doubled = sql.regexp_replace(value, r'(["\\])', "$1$1")
    needs_quotes = (value == "") | value.rlike(r'[ \t\n\x0B\f\r"\\(),]')
    quoted = sql.when(needs_quotes, sql.concat(sql.lit('"'), doubled, sql.lit('"')))
    return sql.coalesce(quoted, value, sql.lit(""))


def _spark_type(type_: str) -> str:
    """Return Spark's type of a measure."""
    if type_ == "bigint":
        return type_
    digits, _, decimals = type_.removeprefix("numeric").strip("( )").partition(",")
    if not digits or int(digits) > MAX_DIGITS:
        return "string"
    return f"decimal({int(digits)}, {int(decimals or 0)})"
