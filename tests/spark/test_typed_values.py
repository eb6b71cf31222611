"""The rules of values, days and sums in Spark are PostgreSQL's own. Small frames, one job each."""

from __future__ import annotations

from contextlib import closing
from random import Random

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
        .select("place", sum_text(sql.col("total")))
        .collect()
    )
    with closing(connect(cluster.dsn())) as connection:
        for place, total in found:
            query = "select coalesce(sum(each), 0)::text from unnest(%s::numeric[]) as each"
            assert connection.ask(query, (lists[place],)) == [(total,)], lists[place]
    assert add(["1" + "0" * 500, "0." + "0" * 500 + "1"]) == "1" + "0" * 500 + "." + "0" * 500 + "1"


NUMBERS = (
    *("0", "0e9", "0.05", "-99.95", "099.95", "100", "1e2", "9995e-2", "0.000001e8", "1e-2"),
    *("1", "1.50", "-1.505", "1500e-2", "15e-1", "1.5e1", "0.000", "1e-7", "-0.5E-2"),
    *(f"{sign}{2**63 + more}" for sign in ("", "-") for more in (-1, 0, 1)),
    *("-9.223372036854775808e18", "1e19", "0.9e19", "1e900", "12345e-2"),
)
NO_NUMBERS = ("NaN", "Infinity", "", " 1", "1.", "0x1", "1e1000", "9" * 2002)


def test_a_number_is_added_where_the_measures_type_keeps_it(
    cluster: Cluster, spark: SparkSession
) -> None:
    types = ("numeric", "bigint", "numeric(4, 2)", "numeric(20, 5)", "numeric(2, 2)", "numeric(12)")
    measures = [Measure("total", "sum", ("amount",), ("rows",), type_, ()) for type_ in types]
    reasons = [typed_values.number_reason(sql.col("text"), each) for each in measures]
    rows = spark.createDataFrame([(text,) for text in (*NUMBERS, *NO_NUMBERS)], "text string")
    found = {text: why for text, *why in rows.select("text", *reasons).collect()}
    with closing(connect(cluster.dsn())) as server:

        def is_kept(text: str, type_: str) -> bool:
            query = f"select %s::numeric::{type_} = %s::numeric"
            try:
                return server.ask(query, (text, text)) == [(True,)]
            except LoaderError:  # numeric value out of range
                return False

        for text in NUMBERS:
            kept = [is_kept(text, type_) for type_ in types]
            assert [why is None for why in found[text]] == kept, text
    assert {found[text][0] for text in NO_NUMBERS} == {"the value of amount is not a number"}


ZONES = (
    ("UTC", "Europe/London"),
    ("America/Sao_Paulo", "Australia/Lord_Howe"),
    ("Africa/Casablanca", "Pacific/Apia"),
    ("Atlantic/Azores", "America/Havana"),
)
"""Of the column and of the dimension."""
UNITS = {
    **{
        unit: f"date_trunc('{unit}', {{0}} at time zone %(zone)s)::date" for unit in ("day", "year")
    },
    "hour": "date_trunc('hour', {0}, %(zone)s)",
    "21600 seconds": """date_bin('6 hours', {0}, (
        select coalesce(min(shown) filter (
            where shown at time zone %(zone)s = date_trunc('day', {0} at time zone %(zone)s)
        ), date_trunc('day', {0}, %(zone)s))
        from (values (0), (60), (1)) as hours (back)
        cross join lateral (
            select date_trunc('day', {0}, %(zone)s) - back * '1 minute'::interval
        ) as clock (shown)
    ))""",
}
MOMENTS = {
    "": "(moment::timestamp at time zone %(column_zone)s)",
    "+00": "(moment || '+00')::timestamptz",
}
"""By what the stream's text ends with: a timestamp's and a timestamptz's moment."""
# Every half hour around each change of the zone's clock until 2024. What is later, or before 1970,
# differs between releases of the time zone database, and Java can have another than the server.
CHANGES = """
    with hours as (
        select hour at time zone %(column_zone)s as there, hour
        from generate_series(
            '1970-01-01 00:00+00'::timestamptz, '2024-12-31 00:00+00', '1 hour'
        ) as hour
    ),

    jumps as (
        select there, there - lag(there) over (order by hour) as step from hours
    )

    select distinct (there + number * '30 minutes'::interval)::text
    from jumps cross join generate_series(-6, 6) as number
    where step <> '1 hour'
"""


def periods(text: str, zone: str, column_zone: str) -> list[tuple[Dimension, str]]:
    """Return dimensions of a moment, and the SQL of each."""
    given = {"kind": "period", "timezone": zone, "column_timezone": column_zone, "column": "at"}
    return [
        (
            Dimension(
                **column("at", "date" if "::date" in query else "timestamptz", unit=unit) | given
            ),
            query.format(MOMENTS[text]) + "::text",
        )
        for unit, query in UNITS.items()
    ]


def test_every_moment_has_the_periods_that_the_database_gives_it(
    spark: SparkSession, cluster: Cluster
) -> None:
    dice = Random(3)
    anywhere = [
        f"{dice.randint(1, 2024):04}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
        f" {dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"
        for _ in range(500)
    ]
    with closing(connect(cluster.dsn())) as connection:
        connection.ask("set timezone = 'UTC'")
        for column_zone, zone in ZONES:
            zones = {"zone": zone, "column_zone": column_zone}
            changes = [moment for (moment,) in connection.ask(CHANGES, zones)]
            asked = {end: periods(end, zone, column_zone) for end in MOMENTS}
            listed = ", ".join(query for each in asked.values() for _, query in each)
            wanted = connection.ask(
                f"select moment, array[{listed}] from unnest(%(moments)s::text[]) as moment",
                {**zones, "moments": [*anywhere, *changes]},
            )
            rows = spark.createDataFrame(wanted, "moment string, wanted array<string>")
            ours = sql.array(
                *(
                    typed_values.period_of(sql.concat("moment", sql.lit(end)), dimension)
                    for end, each in asked.items()
                    for dimension, _ in each
                )
            )
            wrong = rows.withColumn("ours", ours).where("ours <> wanted").limit(3).collect()
            assert [row.asDict() for row in wrong] == [], (column_zone, zone)
            assert len(wanted) > 700 or column_zone == "UTC"
