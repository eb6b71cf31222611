"""The rules of values, periods and sums in Python are PostgreSQL's own."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from random import Random

import pytest
from rules import numbers, times, values

from loader.staging.migrate import upgrade
from testkit.databases import empty_database
from testkit.facts import column
from testkit.servers import Cluster, connect, connect_target
from waltally.errors import LoaderError
from waltally.facts import Condition, Dimension, Measure

AMOUNTS = (
    *("0", "0.00", "-0.5", "0.30", "12.50", "-12.5", "7", "-7", "1e-7", "-2.5E3"),
    *("9" * 28 + "." + "9" * 28, "-" + "9" * 28, "1" * 29, "0." + "0" * 28 + "1"),
    *("1" + "0" * 200, "-0." + "0" * 90 + "7"),
)


def test_a_sum_is_the_servers_whatever_the_numbers(cluster: Cluster) -> None:
    dice = Random(11)
    query = "select trim_scale(coalesce(sum(each), 0))::text from unnest(%s::numeric[]) as each"
    with closing(connect(cluster.dsn())) as connection:
        for _ in range(300):
            texts = [dice.choice(AMOUNTS) for _ in range(dice.randint(1, 9))]
            total = numbers.print_number(numbers.total(texts))
            assert connection.ask(query, (texts,)) == [(total,)], texts
    large, small = "1" + "0" * 500, "0." + "0" * 500 + "1"
    assert numbers.print_number(numbers.total([large, small])) == large + small[1:]


NUMBERS = (
    *("0", "0e9", "0.05", "-99.95", "099.95", "100", "1e2", "9995e-2", "0.000001e8", "1e-2"),
    *("1", "1.50", "-1.505", "1500e-2", "15e-1", "1.5e1", "0.000", "1e-7", "-0.5E-2"),
    *(f"{sign}{2**63 + more}" for sign in ("", "-") for more in (-1, 0, 1)),
    *("-9.223372036854775808e18", "1e19", "0.9e19", "1e900", "12345e-2"),
)
NO_NUMBERS = ("NaN", "Infinity", "", " 1", "1.", "0x1", "1e1000", "9" * 2002)


def test_a_number_is_added_where_the_measures_type_keeps_it(cluster: Cluster) -> None:
    types = ("numeric", "bigint", "numeric(4, 2)", "numeric(20, 5)", "numeric(2, 2)", "numeric(12)")
    sums = [Measure("total", "sum", ("amount",), ("rows",), type_, ()) for type_ in types]
    refuse = [values.refuse_factors(each) for each in sums]
    with closing(connect(cluster.dsn())) as server:

        def is_kept(text: str, type_: str) -> bool:
            query = f"select %s::numeric::{type_} = %s::numeric"
            try:
                return server.ask(query, (text, text)) == [(True,)]
            except LoaderError:  # numeric value out of range
                return False

        for text in NUMBERS:
            kept = [is_kept(text, type_) for type_ in types]
            assert [each([text]) is None for each in refuse] == kept, text
    for text in NO_NUMBERS:
        assert refuse[0]([text]) == "the value of amount is not a number", text
        assert refuse[0]([None]) is None


def test_a_product_is_refused_by_what_it_is() -> None:
    product = Measure("cost", "sum", ("hours", "rate"), ("rows",), "numeric(6, 2)", ())
    refuse = values.refuse_factors(product)
    says = "the product of hours and rate "
    assert refuse(["1.5", "2.55"]) == f"{says}has more than 2 decimals" == refuse(["1.505", "1"])
    assert refuse(["0.5", "2.50"]) is None and refuse(["0.125", "2e1"]) is None
    assert refuse(["100", "100"]) == f"{says}does not fit numeric(6, 2)"
    assert refuse(["x", None]) == "the value of hours is not a number"
    assert refuse([None, "x"]) == "the value of rate is not a number"
    assert refuse([None, "1.12345"]) is None
    assert values.amount(["2", None]) == 0
    assert values.amount(["1" + "0" * 40 + ".1", "0.1"]) == numbers.parse("1" + "0" * 39 + ".01")


TYPES = (
    *("smallint", "integer", "bigint", "boolean", "date", "timestamp", "timestamptz"),
    *("numeric", "numeric(8, 2)", "numeric(3, 0)", "numeric(2, 2)"),
)
DATES = ("2024-02-29", "2026-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01")
TIMES = (
    *(f"{year}-{month}-28" for year in ("0000", "0001", "2024", "9999") for month in ("02", "12")),
    *(f"{year}-02-29" for year in ("1900", "2000", "2023", "2024")),
    *(f"2024-{month:02}-{day}" for month in range(14) for day in ("00", "30", "31", "32")),
    *("2024-1-01", "12024-01-01", "-infinity", "0044-03-15 BC", "2024-02-30 10:00:00", ""),
    *("2024-01-01 23:59:59", "2024-01-01 24:00:00", "2024-01-01 12:60:00", "2024-01-01 12:00"),
    *("2024-01-01 12:00:00.5", "2024-01-01 12:00:00.1234567", "2024-01-01 12:00:00.123456"),
)
TEXTS = (
    *(text + zone for text in TIMES for zone in ("", "+00", "+01")),
    *(*NUMBERS, *NO_NUMBERS, "01", "-0", "00", "+1", "1 ", "\u0661", "1\n", "true", "false", "t"),
    *("32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483649"),
    *(*DATES, "2026-04-31", "2026-13-01", "2026-1-1", "10000-01-01", "2026-04-30", "infinity"),
    *(f"{day} {clock}" for day in DATES for clock in ("24:00:00", "23:59:60", "09:08:07.1234567")),
    *(f"{day} {clock}{zone}" for day in DATES for zone in ("", "+00", "+01", "+00:00")
      for clock in ("00:00:00", "23:59:59.9", "09:08:07.120", "09:08")),
)  # fmt: skip


def is_time(type_: str, text: str) -> bool:
    if type_ == "timestamptz":
        return text.endswith("+00") and is_time("timestamp", text.removesuffix("+00"))
    least, most = (10, 10) if type_ == "date" else (19, 26)
    try:
        return least <= len(text) <= most and datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


def test_a_type_takes_what_the_database_takes(cluster: Cluster) -> None:
    """And the text that is stored is that of its cast."""
    with (
        empty_database(cluster, "type_values"),
        closing(connect_target(cluster.dsn("type_values"))) as connection,
    ):
        upgrade(connection)
        for type_ in TYPES:
            takes, canonical = values.takes(type_), values.canonical(type_)
            query = "select cdc.takes(%s, text) from unnest(%s::text[]) as text"
            asked = connection.ask(query, (type_, list(TEXTS)))
            assert [takes(text) for text in TEXTS] == [taken for (taken,) in asked], type_
            if type_ in ("date", "timestamp", "timestamptz"):
                assert [takes(text) for text in TEXTS] == [is_time(type_, text) for text in TEXTS]
            taken = [text for text in TEXTS if takes(text)]
            if type_ != "numeric":
                query = f"select text::{type_}::text from unnest(%s::text[]) as text"
                cast = [text for (text,) in connection.ask(query, (taken,))]
                assert [canonical(text) for text in taken] == cast, type_
        orders = connection.ask(
            "select cdc.time_order(text) from unnest(%s::text[]) as text", (list(TEXTS),)
        )
        assert [times.order(text) for text in TEXTS] == [text for (text,) in orders]


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


def test_every_moment_has_the_periods_that_the_database_gives_it(cluster: Cluster) -> None:
    dice = Random(3)
    anywhere = [
        f"{dice.randint(1, 9999):04}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
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
            ours = [
                (end, values.read(dimension))
                for end, each in asked.items()
                for dimension, _ in each
            ]
            for moment, periods_there in wanted:
                assert [read(moment + end) for end, read in ours] == periods_there, (moment, zones)
            assert len(wanted) > 700 or column_zone == "UTC"


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
def test_the_first_and_the_last_year_have_periods_too(cluster: Cluster, zone: str) -> None:
    with closing(connect(cluster.dsn())) as connection:
        connection.ask("set timezone = 'UTC'")
        for moment in (
            f"{day} {hour:02}:30:00"
            for day in ("0001-01-01", "9999-12-31")
            for hour in (0, 3, 12, 20, 23)
        ):
            for column_zone in ("UTC", zone):
                given = {"zone": zone, "column_zone": column_zone}
                for dimension, query in periods("", zone, column_zone):
                    query = query.format(MOMENTS[""])
                    ((text,),) = connection.ask(
                        f"select {query} from (values (%(moment)s)) as one (moment)",
                        {**given, "moment": moment},
                    )
                    is_year = text[4:5] == "-" and "BC" not in text
                    assert values.read(dimension)(moment) == (
                        text if is_year else values.UNREADABLE
                    )


def test_conditions_are_sqls() -> None:
    def holds(text: str | None, *conditions: Condition) -> bool | None:
        return values.holds(conditions)(text)

    above = Condition("n", "at_least", ("1.5",), None)
    below = Condition("n", "below", ("1e1",), None)
    among = Condition("n", "in", ("2", "x"), None)
    assert [holds(text, above) for text in ("1.50", "1.4", None, "x")] == [True, False, False, None]
    assert holds("x", above, Condition("n", "not_in", ("x",), None)) is False
    assert holds("x", above, among) is None
    assert holds("2.0", among) is False and holds("2", among) is True
    assert holds(None, Condition("n", "not_in", ("x",), None)) is False
    assert holds(None, among) is False is holds(None, Condition("n", "not_in", ("x", None), None))
    assert holds(None, Condition("n", "in", ("x", None), None)) is True
    assert holds(None, Condition("n", "is_null", (), True)) is True
    assert values.refuse_bound((among, above)) == "the value of n is not a number"
    assert values.refuse_bound((among,)) is None
    assert below.is_of_numbers is False
