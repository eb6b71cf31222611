"""Reads an export in Parquet: the same columns, one directory or file per table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from common import typed_values
from counting.values import Value, column_name, needed, parts_of
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as sql

from waltally.errors import SettingError, TableUnfit
from waltally.facts import Dimension, Fact
from waltally.tables import Table, quoted

_WHOLE = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_TEXTS = (types.StringType, types.BinaryType, types.BooleanType, types.DecimalType, types.DateType)
_TIMES = (types.TimestampType, types.TimestampNTZType)
"""In one zone and in none: the session's time zone is UTC, so they print as in the change log."""

_FITTING = {
    "text": (*_TEXTS, *_WHOLE, *_TIMES),
    "number": (types.StringType, types.DecimalType, *_WHOLE),
    "date_of": (types.StringType, types.DateType, *_TIMES),
    "month_of": (types.StringType, types.DateType, *_TIMES),
}
"""By the kind of value, the types whose values have the same text as in the change log.

A text may still differ from the database's: a char(n) can have lost its blanks."""


def table_rows(spark: SparkSession, path: str, facts: Sequence[Fact], table: Table) -> DataFrame:
    """Return the values of `needed` from PATH/schema.table or PATH/table.

    Raises SettingError, TableUnfit.
    """
    places = [f"{path.rstrip('/')}/{name}" for name in (table, table.name)]
    places = [place + ending for place in places for ending in ("", ".parquet")]
    found = next((place for place in places if exists(spark, place)), None)
    if found is None:
        raise SettingError(
            f"--parquet has no rows of {table}: none of {', '.join(places)} exists",
            "name the directories of the export after the tables",
        )
    try:
        # The calendar of today for old dates too, as PostgreSQL has it.
        reader = spark.read.option("datetimeRebaseMode", "CORRECTED")
        # A table's name is no pattern, which could match the rows of other tables.
        read = reader.parquet(re.sub(r"([*?{}\[\]\\])", r"\\\1", found))
    except AnalysisException as error:
        raise TableUnfit(f"{found} is not Parquet: {error.getCondition()}") from None
    values = needed(facts, table)
    columns = list(dict.fromkeys(value.column for value in values))
    lacking = [name for name in columns if name not in read.columns]
    if lacking:
        raise TableUnfit(
            f"{found} has no column {', '.join(lacking)}", f"export {', '.join(columns)}"
        )
    listed = []
    for place, value in enumerate(values):
        kind = read.schema[value.column].dataType
        used_as = _types(facts, table, value)
        if not _fits(kind, value, used_as):
            raise TableUnfit(
                f"{found} has {value.column} as {kind.simpleString()}, whose text there is not the"
                " database's",
                f"export it as text, as `select {quoted(value.column)}::text` gives it",
            )
        column = sql.col(f"`{value.column.replace('`', '``')}`")
        listed.append(_column(column, kind, value, "uuid" in used_as).alias(column_name(place)))
    return read.select(*listed) if listed else read.select(sql.lit("").alias(column_name(0)))


def exists(spark: SparkSession, place: str) -> bool:
    """Return whether the path exists, on its own file system."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    target = jvm.org.apache.hadoop.fs.Path(place)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return bool(target.getFileSystem(hadoop).exists(target))


def _types(facts: Sequence[Fact], table: Table, value: Value) -> frozenset[str]:
    """Return the types of all dimensions that the value is; a condition needs it as a text."""
    parts = parts_of(facts, table)
    types_ = {
        dimension.type
        for part in parts
        for dimension in part.fact.dimensions
        if part.dimension(dimension) == value
    }
    in_conditions = {part.tested(each) for part in parts for each in part.fact.where}
    return frozenset(types_ | ({"text"} if value in in_conditions else set()))


def _fits(kind: types.DataType, value: Value, used_as: frozenset[str]) -> bool:
    if value.kind == "is_null":
        return True
    if not isinstance(kind, _FITTING[value.kind]):
        return False
    if "uuid" in used_as:
        return isinstance(kind, (types.StringType, types.BinaryType))
    if value.kind == "text" and isinstance(kind, _TIMES):
        # As a text it would matter whether the database's column has a time zone.
        return used_as <= {"timestamp", "timestamptz"}
    if value.kind == "text" and isinstance(kind, types.DecimalType):
        # All its values have one scale, whatever that of the database's was.
        return "text" not in used_as
    # A time in a zone of its own cannot come from a column that is in another one.
    return not (isinstance(kind, types.TimestampType) and value.column_timezone != "UTC")


def _column(column: Column, kind: types.DataType, value: Value, is_uuid: bool) -> Column:
    """Return the value as the database's reader gives it: a uuid's bytes, or a text."""
    if value.kind == "is_null":
        return column.isNull().cast("string")
    if isinstance(kind, types.BinaryType):
        return column if is_uuid else sql.lower(sql.hex(column))
    text = sql.lower(column) if is_uuid else column.cast("string")
    if isinstance(kind, types.TimestampType):
        text = sql.concat(text, sql.lit("+00"))
    if value.kind == "text" or value.kind == "number":
        return text
    dimension = Dimension(
        "", "date", value.kind, None, value.timezone, value.column_timezone, "count"
    )
    return typed_values.calendar_day(text, dimension)
