"""Use once what the jobs use of Spark, so that Java can store the classes that it loads for it.

spark-submit --driver-java-options -XX:ArchiveClassesAtExit=FILE spark/classes.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from waltally_jobs.common import session


def doubled(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield two numbers and a text for each place."""
    for place in places:
        numbers = place["id"]
        texts = pa.array([f"{number}" for number in numbers.to_pylist()])
        yield pa.RecordBatch.from_arrays([numbers, numbers, texts], names=["at", "place", "text"])


def use(spark: SparkSession) -> None:
    """Read, keep, group, spread and collect a few rows."""
    ddl = "at bigint, place bigint, text string"
    rows = spark.range(0, 4, 1, 2).mapInArrow(doubled, ddl).persist()
    assert rows.agg(sql.expr("sum(octet_length(text))")).collect()[0][0] == 4
    assert (
        len(rows.unionByName(rows).groupBy("text").applyInArrow(lambda each: each, ddl).collect())
        == 8
    )
    assert rows.repartition(2, "text").where(sql.col("at") == 1).toArrow().num_rows == 1


if __name__ == "__main__":
    with session.running("classes") as running:
        use(running)
