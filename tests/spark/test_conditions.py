"""A condition holds of a row at the server where it holds, on Spark, of the stream's text of it."""

from __future__ import annotations

from contextlib import closing

import pytest
from common import typed_values
from common.connections import connect
from counting import columns
from counting.values import Value
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tests.spark.support import Source
from waltally.facts import Condition
from waltally.tables import Table

NUMBERS = ("0", "-0.5", "7", "7.50", "7.500000000000000000000000000000000000001", "1e30", "-1e30")
TIMES = (
    *("infinity", "-infinity", "0044-03-15 12:00 BC", "12026-01-01", "2026-07-01"),
    *("2026-07-01 00:00:00.000001", "2026-06-30 23:59:59.5", "2026-07-01 08:30", "0001-01-01"),
)
BOUNDS = ("at_least", "below")
TESTED = {
    "numeric": (NUMBERS, (*((b, ("7.5",), None) for b in BOUNDS), ("in", ("7.50", "0"), None))),
    "bigint": (("0", "-7", "9223372036854775807"), [(b, ("-7",), None) for b in BOUNDS]),
    "real": (("0.7", "0.1", "1e20"), [(b, ("0.7",), None) for b in BOUNDS]),
    "double precision": (("0.7", "0.1", "1e20"), [(b, ("0.70",), None) for b in BOUNDS]),
    **{
        type_: (TIMES, [(b, (at,), None) for b in BOUNDS for at in AT])
        for type_ in ("date", "timestamp", "timestamptz")
        for AT in (("2026-07-01", "2026-07-01 08:30:00", "0001-01-01 00:00:00.5"),)
    },
    "text": (
        ("a", "A", "", "it's"),
        [
            *(("in", ("a", "it's"), None), ("not_in", ("a", ""), None)),
            *(("is_null", (), True), ("is_null", (), False)),
        ],
    ),
    "uuid": (
        ("11111111-AAAA-1111-1111-111111111111", "22222222-aaaa-1111-1111-111111111111"),
        [("in", ("11111111-aaaa-1111-1111-111111111111",), None)],
    ),
}


@pytest.mark.parametrize("type_", TESTED)
def test_server_and_spark_say_the_same_of_every_value(
    shared_source: Source, spark: SparkSession, type_: str
) -> None:
    values, tests = TESTED[type_]
    conditions = [Condition("v", *each) for each in tests]  # type: ignore[arg-type]
    shared_source.execute(f"drop table if exists tested; create table tested (v {type_})")
    for each in (*values, None):
        shared_source.execute("insert into tested values (%s)", each)
    with closing(connect(shared_source.dsn, "source")) as connection:
        types = columns.types_of(connection, Table("public", "tested"), ["v"])
    listed = [columns.spelled(Value("v"), types["v"])]
    listed += [
        columns.spelled(Value("v", "condition", conditions=(each,)), types["v"])
        for each in conditions
    ]
    asked = shared_source.execute(f"select {', '.join(listed)} from tested")
    rows = spark.createDataFrame([(text,) for text, *_ in asked], "text string")
    held = [typed_values.holds(each, sql.col("text")).cast("string") for each in conditions]
    found = rows.select("text", *held).collect()
    assert {tuple(row) for row in found} == set(asked)
    answers = {answer for _, *met in asked for answer in met}
    assert answers == {"true", "false"}
