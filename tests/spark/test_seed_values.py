"""Values and sums in Spark are PostgreSQL's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from random import Random

import pytest
from common import typed_values
from common.exact_sums import add, sum_of, sum_text
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from testkit.facts import column
from testkit.servers import Cluster, connect
from waltally.errors import LoaderError
from waltally.facts import Dimension, Measure

AMOUNTS = (
    *("0", "0.00", "-0.5", "0.30", "12.50", "-12.5", "7", "-7", "1e-7", "-2.5E3"),
    *("9" * 28 + "." + "9" * 28, "-" + "9" * 28, "1" * 29, "0." + "0" * 28 + "1"),
    *("1" + "0" * 200, "-0." + "0" * 90 + "7"),
)


def test_a_sum_is_the_servers_whatever_the_numbers(cluster: Cluster, spark: SparkSession) -> None:
    dice = Random(11)
    lists = [[dice.choice((*AMOUNTS, None)) for _ in range(dice.randint(1, 9))] for _ in range(300)]
    rows = [(number, text) for number, texts in enumerate(lists) for text in texts]
    found = (
        spark.createDataFrame(rows, "place int, text string")
        .groupBy("place")
        .agg(sum_of(sql.col("text")).alias("total"))
        .select("place", sum_text(sql.col("total")).alias("total"))
        .collect()
    )
    with closing(connect(cluster.dsn())) as connection:
        for row in found:
            server = connection.ask(
                "select coalesce(sum(each), 0)::text from unnest(%s::numeric[]) as each",
                (lists[row["place"]],),
            )
            assert [(row["total"],)] == server, lists[row["place"]]


def test_no_digit_of_a_sum_is_lost() -> None:
    assert add(["1" + "0" * 500, "0." + "0" * 500 + "1"]) == "1" + "0" * 500 + "." + "0" * 500 + "1"
    assert add(["-0.30", "0.3"]) == "0.00"
    assert add([]) == "0"


VALUES: dict[str, dict[str | None, str | None]] = {
    "smallint": {"7": "7", "-32768": "-32768", "32768": None, "07": None, "7.0": None, "-0": None},
    "bigint": {"9223372036854775807": "9223372036854775807", "9223372036854775808": None},
    "boolean": {"true": "true", "false": "false", "t": None, "": None},
    "numeric(5, 2)": {
        "7": "7.00",
        "7.5": "7.50",
        "-7.500": "-7.50",
        "007": "7.00",
        "-0.0": "0.00",
        "999.99": "999.99",
        "1000": None,
        "7.505": None,
        "1e2": None,
        ".5": None,
    },
    "numeric(3)": {"7.0": "7", "-12": "-12", "7.5": None},
    "date": {
        "2026-02-28": "2026-02-28",
        "2026-02-30": None,
        "0000-01-01": None,
        "0044-03-15 BC": None,
        "10000-01-01": None,
        "infinity": None,
        "2026-02-28 10:00:00": None,
    },
    "timestamp": {
        "2026-02-28 10:00:00": "2026-02-28 10:00:00",
        "2026-02-28 10:00:00.50": "2026-02-28 10:00:00.5",
        "2026-02-28 10:00:00.000": "2026-02-28 10:00:00",
        "2026-02-28 24:00:00": None,
        "2026-02-28 10:00:00+00": None,
    },
    "timestamptz": {
        "2026-02-28 10:00:00.120+00": "2026-02-28 10:00:00.12+00",
        "2026-02-28 10:00:00+01": None,
        "2026-02-28 10:00:00": None,
    },
    "uuid": {
        "A" * 8 + "-aaaa" * 3 + "-" + "b" * 12: "a" * 8 + "-aaaa" * 3 + "-" + "b" * 12,
        "a": None,
    },
    "text": {"ü" * 500: "ü" * 500, "ü" * 501: None},
}
"""By type, texts of the stream and their values; None where the type does not take them."""


@pytest.mark.parametrize("type_", VALUES)
def test_a_value_is_written_as_its_type_prints_it(
    cluster: Cluster, spark: SparkSession, type_: str
) -> None:
    dimension = Dimension(**column("name", type_))
    texts = {**VALUES[type_], None: None}
    value = typed_values.as_dimension(sql.col("text"), dimension)
    found = (
        spark.createDataFrame([(text,) for text in texts], "text string")
        .select("text", value.alias("value"))
        .withColumn("reason", typed_values.dimension_reason(sql.col("value"), dimension))
        .collect()
    )
    with closing(connect(cluster.dsn())) as server:
        for row in found:
            taken = None if row["reason"] else row["value"]
            assert taken == texts[row["text"]], row
            assert (row["reason"] is None) == (taken is not None or row["text"] is None), row
            if taken is not None:
                assert server.ask(f"select %s::{type_}::text", (taken,)) == [(taken,)]


NUMBERS = {
    **{"1": 0, "1.0": 0, "1.50": 1, "-1.505": 3, "1500e-2": 0, "15e-1": 1},
    **{"1.5e1": 0, "0.000": 0, "1e-7": 7, "-0.5E-2": 3},
}
"""By text how many decimals it needs."""


def refusals(
    spark: SparkSession, texts: Iterable[str], types: Sequence[str]
) -> list[list[str | None]]:
    """Return by text why a measure of each type refuses it, None where it does not."""
    measures = [Measure("total", "sum", ("amount",), ("rows",), type_, ()) for type_ in types]
    frame = spark.createDataFrame(list(enumerate(texts)), "place int, text string").coalesce(1)
    reasons = [typed_values.number_reason(sql.col("text"), each) for each in measures]
    return [row[0] for row in frame.orderBy("place").select(sql.array(*reasons)).collect()]


def test_a_number_with_more_decimals_than_the_measure_keeps_is_refused(spark: SparkSession) -> None:
    types = ["bigint", "numeric", *(f"numeric(12, {scale})" for scale in range(9))]
    kept = [0, 99, *range(9)]
    found = refusals(spark, NUMBERS, types)
    for (text, decimals), outcome in zip(NUMBERS.items(), found, strict=True):
        assert [why is not None for why in outcome] == [decimals > each for each in kept], text


HELD = (
    *("0", "0e9", "0.05", "-99.95", "099.95", "100", "1e2", "9995e-2", "0.000001e8", "1e-2"),
    *(f"{sign}{2**63 + more}" for sign in ("", "-") for more in (-1, 0, 1)),
    *("-9.223372036854775808e18", "1e19", "0.9e19", "1e900", "12345e-2"),
)


def test_a_number_that_the_measures_type_does_not_hold_is_refused(
    cluster: Cluster, spark: SparkSession
) -> None:
    types = ["numeric", "bigint", "numeric(4, 2)", "numeric(20, 5)", "numeric(2, 2)"]
    with closing(connect(cluster.dsn())) as server:

        def is_kept(text: str, type_: str) -> bool:
            query = f"select %s::numeric::{type_} = %s::numeric"
            try:
                return server.ask(query, (text, text)) == [(True,)]
            except LoaderError:  # numeric value out of range
                return False

        for text, outcome in zip(HELD, refusals(spark, HELD, types), strict=True):
            assert [why is None for why in outcome] == [is_kept(text, each) for each in types], text


def test_what_is_no_number_is_not_added(spark: SparkSession) -> None:
    texts = ("NaN", "Infinity", "", " 1", "1.", "0x1", "1e1000", "9" * 1001)
    reason = "the value of amount is not a number"
    assert refusals(spark, texts, ["numeric"]) == [[reason]] * len(texts)
