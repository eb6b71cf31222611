"""The day of a moment in a time zone is PostgreSQL's, also where the clock was changed."""

from __future__ import annotations

import os
from contextlib import closing
from random import Random

from common import typed_values
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from testkit.facts import column, declare
from testkit.servers import Cluster, connect
from waltally.facts import Dimension, parse
from waltally.tables import Table

ZONES = (
    *("UTC", "Europe/London", "Europe/Dublin", "America/New_York", "America/Sao_Paulo"),
    *("Australia/Lord_Howe", "Asia/Kathmandu", "Asia/Beirut", "Africa/Cairo", "Pacific/Apia"),
    *("America/Havana", "Asia/Gaza", "Antarctica/Troll", "Pacific/Chatham", "Africa/Casablanca"),
)
PAIRS = [
    (zone, other)
    for number, zone in enumerate(ZONES)
    for place, other in enumerate((zone, "UTC", ZONES[(number * 7 + 3) % len(ZONES)]))
    if number == 5 * place or "WALTALLY_ALL_CASES" in os.environ
]
"""Of the column and of the dimension: three, and in `make acceptance` each zone three times."""
# Every half hour of two days around each change of the zone's clock, and moments of all years until
# 2024. What is later, or before 1970, differs between releases of the time zone database, and Java
# can have another release than the server.
CHANGES = """
    with hours as (
        select hour, hour at time zone %(zone)s as there
        from generate_series(
            '1970-01-01 00:00+00'::timestamptz, '2024-12-31 00:00+00', '1 hour'
        ) as hour
    ),

    jumps as (
        select there from (
            select there, there - lag(there) over (order by hour) as step from hours
        ) as steps
        where step <> '1 hour'
    )

    select distinct (there + minutes)::text
    from jumps, (
        select step * '30 minutes'::interval from generate_series(-6, 6) as step
    ) as around (minutes)
"""


DAYS = ("day", "quarter")
INSTANTS = {"hour": "1 hour", "21600 seconds": "6 hours"}
UNITS = (*DAYS, *INSTANTS)


def dimension(unit: str, zone: str, column_zone: str) -> Dimension:
    type_ = "timestamptz" if unit in INSTANTS else "date"
    return parse(
        "f",
        Table("a", "b"),
        declare(
            "a.b",
            dimensions=[
                column(
                    "day",
                    type_,
                    kind="period",
                    unit=unit,
                    column="at",
                    timezone=zone,
                    column_timezone=column_zone,
                )
            ],
        ),
    ).dimensions[0]


def test_every_moment_has_the_day_that_the_database_gives_it(
    spark: SparkSession, cluster: Cluster
) -> None:
    dice = Random(3)
    anywhere = [
        f"{dice.randint(1, 2024):04}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
        f" {dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"
        for _ in range(500)
    ]
    compared = 0
    with closing(connect(cluster.dsn())) as connection:
        connection.ask("set timezone = 'UTC'")
        for column_zone, zone in PAIRS:
            found = connection.ask(CHANGES, {"zone": column_zone})
            moments = [*anywhere, *(moment for (moment,) in found)]
            moments_ = (
                "(moment::timestamp at time zone %(column_zone)s)",
                "(moment || '+00')::timestamptz",
            )
            days = [
                f"date_trunc('{unit}', {moment} at time zone %(zone)s)::date::text"
                for unit in DAYS
                for moment in moments_
            ]
            instants = [
                f"date_trunc('hour', {moment}, %(zone)s)::text"
                if unit == "hour"
                else f"date_bin('{every}', {moment}, date_trunc('day', {moment}, %(zone)s))::text"
                for unit, every in INSTANTS.items()
                for moment in moments_
            ]
            query = ", ".join([*days, *instants])
            wanted = connection.ask(
                f"select moment, {query} from unnest(%(moments)s::text[]) as moment",
                {"zone": zone, "column_zone": column_zone, "moments": moments},
            )
            # A day beyond the years 1 to 9999 is another rule's.
            rows = spark.createDataFrame(
                [row for row in wanted if not any(" BC" in text for text in row[1:])],
                ", ".join(
                    ["moment string", *(f"wanted_{n} string" for n in range(len(UNITS) * 2))]
                ),
            )
            texts = (sql.col("moment"), sql.concat("moment", sql.lit("+00")))
            ours = [
                typed_values.period_of(text, dimension(unit, zone, column_zone))
                for unit in UNITS
                for text in texts
            ]
            columns = {f"ours_{place}": each for place, each in enumerate(ours)}
            differs = " or ".join(
                f"wanted_{place} <> ours_{place}" for place in range(len(UNITS) * 2)
            )
            wrong = rows.withColumns(columns).where(differs).limit(3).collect()
            assert [row.asDict() for row in wrong] == [], (column_zone, zone)
            compared += len(wanted)
    assert compared > 400 * len(PAIRS)


def test_a_date_is_its_own_day_and_what_is_no_time_stays_as_it_is(spark: SparkSession) -> None:
    texts = ["2026-03-29", "infinity", "0044-03-15 BC", "2026-02-30", "7", "2026-01-01 25:00:00"]
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    month = dimension("month", "Asia/Kathmandu", "UTC")
    found = [
        row[0] for row in rows.select(typed_values.period_of(sql.col("text"), month)).collect()
    ]
    assert found == ["2026-03-01", *texts[1:]]
    reasons = [
        row[0]
        for row in rows.select(typed_values.dimension_reason(sql.col("text"), month)).collect()
    ]
    assert reasons == [None, *["the value of at is not a date of the years 1 to 9999"] * 5]
