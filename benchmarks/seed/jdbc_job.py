"""The Spark job that counts through Spark's own JDBC reader.

It takes no shared snapshot, so its count is only right while nothing writes; the seed's is right
in any case.
"""

from __future__ import annotations

import sys
from functools import reduce

from counting import ranges
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from demo import source
from demo.source import DIMENSIONS
from waltally.tables import Table


def count_over_jdbc(primary: str, warehouse: str, dsn: str, counts_table: str) -> None:
    """Count both tables of the primary into the warehouse's `counts_table`."""
    properties = {"driver": "org.postgresql.Driver", "fetchsize": "10000"}
    spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "64").getOrCreate()
    parts = []
    for table in source.TABLES:
        with source.transaction(dsn) as cursor:
            cursor.execute("select pg_relation_size(%s) / 8192", (table,))
            ((pages,),) = cursor.fetchall()
        leaf = ranges.Leaf(Table("public", table), pages)
        conditions = ranges.cut(leaf, ranges.PAGES_PER_RANGE)
        rows = spark.read.jdbc(primary, table, predicates=conditions, properties=properties)
        parts.append(rows.select(sql.lit(f"public.{table}").alias("source_table"), *DIMENSIONS))
    counts = reduce(DataFrame.unionByName, parts).groupBy("source_table", *DIMENSIONS)
    counted = counts.agg(sql.count("*").alias("row_count"))
    counted.write.jdbc(warehouse, counts_table, mode="overwrite", properties=properties)
    spark.stop()


if __name__ == "__main__":
    count_over_jdbc(*sys.argv[1:])
