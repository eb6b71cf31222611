"""Values and sums in Spark are PostgreSQL's own."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import psycopg
import pytest
from common import typed_values
from common.exact_sums import add, sum_of, sum_text
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tests.spark.support import Source
from tests.support.facts import column
from waltally.facts import Dimension, Measure

AMOUNTS = (
    *("0", "0.00", "-0.5", "0.30", "12.50", "-12.5", "7", "-7", "1e-7", "-2.5E3"),
    *("9" * 28 + "." + "9" * 28, "-" + "9" * 28, "1" * 29, "0." + "0" * 28 + "1"),
    *("1" + "0" * 200, "-0." + "0" * 90 + "7"),
)


def test_a_sum_is_the_servers_whatever_the_numbers(source: Source, spark: SparkSession) -> None:
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
    with source.connect() as connection:
        for row in found:
            server = connection.execute(
                "select coalesce(sum(each), 0)::text from unnest(%s::numeric[]) as each",
                (lists[row["place"]],),
            ).fetchone()
            assert (row["total"],) == server, lists[row["place"]]


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
    source: Source, spark: SparkSession, type_: str
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
    for row in found:
        taken = None if row["reason"] else row["value"]
        assert taken == texts[row["text"]], row
        assert (row["reason"] is None) == (taken is not None or row["text"] is None), row
        if taken is not None:
            assert source.ask(f"select %s::{type_}::text", taken) == [(taken,)]


@pytest.mark.parametrize(
    ("text", "decimals"),
    [
        *(("1", 0), ("1.0", 0), ("1.50", 1), ("-1.505", 3), ("1500e-2", 0), ("15e-1", 1)),
        *(("1.5e1", 0), ("0.000", 0), ("1e-7", 7), ("-0.5E-2", 3)),
    ],
)
def test_a_number_with_more_decimals_than_the_measure_keeps_is_refused(
    spark: SparkSession, text: str, decimals: int
) -> None:
    assert decimals == max(0, -int(Decimal(text).normalize().as_tuple().exponent))
    types = ["bigint", "numeric", *(f"numeric(12, {scale})" for scale in range(9))]
    measures = [Measure("total", "sum", "amount", ("rows",), type_) for type_ in types]
    reasons = [typed_values.number_reason(sql.lit(text), each) for each in measures]
    found = spark.range(1).select(sql.array(*(each.cast("string") for each in reasons))).first()
    assert found is not None
    kept = [0, 99, *range(9)]
    assert [reason is not None for reason in found[0]] == [decimals > scale for scale in kept]


@pytest.mark.parametrize(
    "text",
    [
        *("0", "0e9", "0.05", "-99.95", "099.95", "100", "1e2", "9995e-2", "0.000001e8", "1e-2"),
        *(f"{sign}{2**63 + more}" for sign in ("", "-") for more in (-1, 0, 1)),
        *("-9.223372036854775808e18", "1e19", "0.9e19", "1e900", "12345e-2"),
    ],
)
def test_a_number_that_the_measures_type_does_not_hold_is_refused(
    source: Source, spark: SparkSession, text: str
) -> None:
    types = ["numeric", "bigint", "numeric(4, 2)", "numeric(20, 5)", "numeric(2, 2)"]
    measures = [Measure("total", "sum", "amount", ("rows",), type_) for type_ in types]
    reasons = [typed_values.number_reason(sql.lit(text), each) for each in measures]
    found = spark.range(1).select(sql.array(*(each.cast("string") for each in reasons))).first()
    assert found is not None
    for type_, reason in zip(types, found[0], strict=True):
        try:
            [(is_kept,)] = source.ask(f"select %s::numeric::{type_} = %s::numeric", text, text)
        except psycopg.errors.NumericValueOutOfRange:
            is_kept = False
        assert (reason is None) == is_kept, (type_, reason)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "", " 1", "1.", "0x1", "1e1000", "9" * 1001])
def test_what_is_no_number_is_not_added(spark: SparkSession, text: str) -> None:
    measure = Measure("total", "sum", "amount", ("rows",), "numeric")
    found = spark.range(1).select(typed_values.number_reason(sql.lit(text), measure)).first()
    assert found is not None
    assert found[0] == "the value of amount is not a number"
