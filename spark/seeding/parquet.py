"""Reads an export in Parquet: the same columns, one directory or file per table."""

from __future__ import annotations

from functools import reduce

from counting.counts import dimensions
from deltas import rules
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, types

from waltally.errors import SettingError, TableUnfit
from waltally.tables import DIMENSIONS, Table

_IDS = (types.StringType, types.BinaryType)
_SAME_TEXT = (
    *(*_IDS, types.BooleanType, types.DecimalType, types.DateType),
    *(types.ByteType, types.ShortType, types.IntegerType, types.LongType),
)
"""Types whose values have the same text in Parquet and in the change log.

A text may still differ from the database's: a char(n) can have lost its blanks."""


def rows(spark: SparkSession, path: str, tables: tuple[Table, ...]) -> DataFrame:
    """Return the dimensions of all tables' rows. Raises SettingError, TableUnfit."""
    parts = [table_rows(spark, path, table) for table in tables]
    return reduce(DataFrame.unionByName, parts)


def table_rows(spark: SparkSession, path: str, table: Table) -> DataFrame:
    """Return one table's dimensions from PATH/schema.table or PATH/table."""
    places = [f"{path.rstrip('/')}/{name}" for name in (table, table.name)]
    places = [place + ending for place in places for ending in ("", ".parquet")]
    found = next((place for place in places if exists(spark, place)), None)
    if found is None:
        raise SettingError(
            f"--parquet has no rows of {table}: none of {', '.join(places)} exists",
            "name the directories of the export after the tables",
        )
    try:
        read = spark.read.parquet(found)
    except AnalysisException as error:
        raise TableUnfit(f"{found} is not Parquet: {error.getCondition()}") from None
    lacking = [name for name in DIMENSIONS if name not in read.columns]
    if lacking:
        raise TableUnfit(
            f"{found} has no column {', '.join(lacking)}",
            "export service_id, template_id, notification_type and notification_status",
        )
    for name in DIMENSIONS:
        kind = read.schema[name].dataType
        if not isinstance(kind, _SAME_TEXT if name not in rules.UUIDS else _IDS):
            raise TableUnfit(
                f"{found} has {name} as {kind.simpleString()}, whose text there is not the"
                " database's",
                f"export it as text, as `select {name}::text` gives it",
            )
    return dimensions(read, str(table))


def exists(spark: SparkSession, place: str) -> bool:
    """Return whether the path exists, on its own file system."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    target = jvm.org.apache.hadoop.fs.Path(place)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    return bool(target.getFileSystem(hadoop).exists(target))
