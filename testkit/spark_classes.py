"""Use once what the jobs use of Spark: `make test` stores the classes that Java loads for it.

spark-submit --driver-java-options -XX:ArchiveClassesAtExit=FILE testkit/spark_classes.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

import pyarrow as pa
from common import session
from common.arrow import map_batches
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql


def doubled(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield two numbers and a text for each place."""
    for place in places:
        numbers = place["id"]
        texts = pa.array([f"{number}" for number in numbers.to_pylist()])
        yield pa.RecordBatch.from_arrays([numbers, numbers, texts], names=["at", "place", "text"])


def use(spark: SparkSession, folder: str) -> None:
    """Read, cache, group, join, sort and store a few rows."""
    places = spark.range(0, 4, 1, 2)
    rows = map_batches(places, doubled, "at bigint, place bigint, text string").persist()
    assert rows.count() == 4
    sums = rows.groupBy(sql.array("text").alias("key")).agg(sql.sum("at").alias("sum"))
    sums.write.parquet(f"{folder}/sums")
    stored = spark.read.parquet(f"{folder}/sums").withColumnRenamed("sum", "stored")
    both = sums.join(stored, "key", "full_outer").persist()
    assert both.where("sum <> stored").count() == 0
    assert len(both.orderBy("key").limit(10).collect()) == 4


if __name__ == "__main__":
    with session.running("classes") as running, tempfile.TemporaryDirectory() as home:
        use(running, home)
