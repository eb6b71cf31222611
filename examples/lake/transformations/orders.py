"""The changes of public.orders as a table that grows, and one small table made of it."""

import waltally_source  # noqa: F401  registers the format in the pipeline's session
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

spark = SparkSession.active()


@dp.table
def order_changes() -> DataFrame:
    """Each change once: a run reads from where the last one ended."""
    changes = spark.readStream.format("waltally").options(table="public.orders", reader="lake")
    return changes.load()


@dp.materialized_view
def status_changes() -> DataFrame:
    """How many orders went from one status to another, by day: each run counts all changes."""
    moved = spark.read.table("order_changes").where(
        "op = 'update' and old.status is distinct from status"
    )
    day = sql.to_date("committed_at").alias("day")
    return moved.groupBy(day, sql.col("old.status").alias("before"), "status").count()
