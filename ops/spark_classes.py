"""Use once what the jobs use of Spark: `make install` stores the classes that Java loads for it.

spark-submit --driver-java-options -XX:ArchiveClassesAtExit=FILE ops/spark_classes.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

import pyarrow as pa
from common import exact_sums, session
from common.arrow import map_batches
from deltas import rules
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from waltally.facts import parse
from waltally.tables import Table

FACT = parse(
    "ft_orders",
    Table("analytics", "ft_orders"),
    {
        "version": 1,
        "kind": "fact",
        "tables": [
            {
                "name": "orders",
                "schema": "public",
                "table": "orders",
                "deletes": "count",
                "columns": {},
            }
        ],
        "dimensions": [
            {
                "name": "shop",
                "type": "text",
                "kind": "column",
                "column": "shop",
                "unit": None,
                "timezone": None,
                "column_timezone": None,
                "path": [],
                "bounds": [],
                "labels": {},
                "value_type": "text",
                "nulls": "leave_out",
            }
        ],
        "measures": [
            {
                "name": "orders",
                "kind": "count",
                "columns": [],
                "of": ["orders"],
                "type": "bigint",
                "where": [],
            },
            {
                "name": "amount",
                "kind": "sum",
                "columns": ["amount"],
                "of": ["orders"],
                "type": "numeric",
                "where": [],
            },
        ],
        "where": [],
        "key": [],
    },
)
PAYLOAD = (
    '{"action":"I","schema":"public","table":"orders","columns":[{"name":"shop","value":"a"},'
    '{"name":"amount","value":1.5}]}'
)


def payloads(places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a change for each place."""
    for place in places:
        numbers = place["id"]
        texts = [PAYLOAD] * place.num_rows
        yield pa.RecordBatch.from_arrays([numbers, pa.array(texts)], names=["at", "payload"])


def use(spark: SparkSession, folder: str) -> None:
    """Read, cache, group, join, sort and store a few changes."""
    places = spark.range(0, 2, 1, 2)
    log = (
        map_batches(places, payloads, "at bigint, payload string")
        .select(
            sql.col("at").alias("commit_lsn"),
            sql.lit(1).cast("bigint").alias("ordinal"),
            sql.lit("I").alias("action"),
            "payload",
        )
        .persist()
    )
    assert log.count() == 2
    deltas = rules.FactChanges(log, FACT, "slot").deltas()
    deltas.write.parquet(f"{folder}/deltas")
    both = exact_sums.both(FACT, deltas, spark.read.parquet(f"{folder}/deltas")).persist()
    assert both.where("left <> right").count() == 0
    assert len(both.orderBy("dimensions").limit(10).collect()) == 1


if __name__ == "__main__":
    with session.running("install") as running, tempfile.TemporaryDirectory() as home:
        use(running, home)
