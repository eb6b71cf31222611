"""What a time zone or another setting of a reader's decides: the view says it, or it is found."""

from __future__ import annotations

import pytest

from testkit.databases import Database
from tests.proposing.support import must_prove, split
from waltally.errors import LoaderError


def test_bounds_with_an_offset_need_no_zone(shop: Database) -> None:
    query = (
        "select count(*) as n from orders where placed_at >= '2026-11-02T00:00Z' /* :from */"
        " and placed_at < '2026-11-09 00:00+00' /* :to */"
    )
    halves = split(shop, query, timezone="")
    assert "date_trunc('hour', placed_at, 'UTC') AS hour" in halves.models[0]
    assert halves.plan.models["waltally_model_0"].compiled.options == {}
    proof = halves.prove()
    assert (proof.rows, proof.missing, proof.surplus) == (1, [], [])
    # What is no moment without a zone needs one.
    other = split(shop, query.replace("00:00+00", "00:00"), timezone="")
    assert other.plan.models["waltally_model_0"].compiled.options == {"timezone": "UTC"}


def test_a_zone_is_the_models_where_its_dates_need_one(shop: Database) -> None:
    halves = split(
        shop, "select placed_at::date as day, count(*) from orders group by 1", "Asia/Tokyo"
    )
    assert halves.plan.models["waltally_model_0"].compiled.options == {"timezone": "Asia/Tokyo"}
    assert (
        split(shop, "select status, count(*) from orders group by 1")
        .plan.models["waltally_model_0"]
        .compiled.options
        == {}
    )


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        (
            "placed_at >= current_date - 7",
            "day >= ((now() AT TIME ZONE 'Z')::date - 7)::timestamp AT TIME ZONE 'Z'",
        ),
        ("placed_at::date = current_date", "key_1 = (now() AT TIME ZONE 'Z')::date"),
        ("placed_at::date < now()::date", "key_1 < (now() AT TIME ZONE 'Z')::date"),
        (
            "placed_at < date_trunc('month', now()) - interval '1 month'",
            "day < (date_trunc('month', now(), 'Z') AT TIME ZONE 'Z' - '1 month'::interval) AT TIME ZONE 'Z'",
        ),
        (
            "placed_at < date_trunc('day', now()) - interval '12 hours'",
            "hour < (date_trunc('day', now(), 'Z') - '12 hours'::interval)",
        ),
        (
            # On the day after a change of the clock that is no day's begin.
            "placed_at < date_trunc('day', now()) - interval '24 hours'",
            "hour < (date_trunc('day', now(), 'Z') - '24 hours'::interval)",
        ),
        (
            "placed_at at time zone 'Z' < date_trunc('day', localtimestamp)",
            "day < date_trunc('day', now() AT TIME ZONE 'Z')",
        ),
        (
            "placed_at >= date_trunc('month', current_date)",
            "day >= date_trunc('month', (now() AT TIME ZONE 'Z')::date::timestamp AT TIME ZONE 'Z', 'Z')",
        ),
        (
            "to_char(placed_at, 'MM') = to_char(now(), 'MM')",
            "key_1 = to_char(now() AT TIME ZONE 'Z', 'MM')",
        ),
        (
            "placed_at at time zone 'UTC' <> now()",
            "key_1::timestamp AT TIME ZONE 'Z' <> now()",
        ),
        (
            "(placed_at between current_date - 30 and now() or id < 0)",
            "placed_at >= ((now() AT TIME ZONE 'Z')::date - 30)::timestamp AT TIME ZONE 'Z'"
            " AND orders.placed_at <= now()) OR orders.key_2",
        ),
        (
            "true having max(status) in ('paid', 'open') and max(placed_at)::date > '2026-01-01'"
            " and extract(epoch from max(placed_at)) > 5",
            "placed_at) AT TIME ZONE 'Z')::date > '2026-01-01' AND extract ('epoch' FROM max(orders.placed_at)) > 5",
        ),
    ],
)
def test_a_view_means_its_own_zone_by_days_and_not_the_reader_s(
    shop: Database, asked: str, read: str
) -> None:
    zone = "Europe/Berlin"
    text = f"select count(*) as n from orders where {asked}".replace("'Z'", f"'{zone}'")
    halves = split(shop, text, zone)
    assert halves.reads.endswith(f"orders.{read}".replace("'Z'", f"'{zone}'"))
    proof = halves.prove()
    assert (proof.missing, proof.surplus) == ([], [])


@pytest.mark.parametrize(
    "query",
    [
        "select d, count(o.id) as n from generate_series('2026-10-20'::date, '2026-11-02', '1 day') as d"
        " left join orders as o on (o.placed_at at time zone 'UTC')::date = d::date group by 1",
        "select d.at, count(o.id) as n from generate_series('2026-10-20 00:00', '2026-12-20'::date, '1 month') as d (at)"
        " left join orders as o on date_trunc('month', o.placed_at) = date_trunc('month', d.at) group by 1",
        "select generate_series, count(o.id) as n from generate_series('2026-10-24'::timestamptz, '2026-10-26', '6 hours')"
        " left join orders as o on date_trunc('hour', o.placed_at) = generate_series group by 1",
        "select status, max(placed_at) + interval '1 day' * count(*) as late from orders group by 1",
        "select status, interval '1 month 2 hours' + min(placed_at) as late from orders group by 1",
        "select status, max(placed_at) - interval '40 days' * 0.7 as late from orders group by 1",
        "select least(max(placed_at), timestamp '2026-11-25') as one, coalesce(max(placed_at), date '2026-11-25') as two,"
        " case when count(*) < 5 then max(placed_at) else timestamp '2026-11-25' end as three from orders",
        "select status, age(max(placed_at), min(placed_at)) as one, age(min(placed_at)) as two from orders group by 1",
    ],
)
def test_a_view_says_its_zone_wherever_a_reader_s_would_be_seen(shop: Database, query: str) -> None:
    must_prove(shop, query, "Europe/Berlin")


@pytest.mark.parametrize(
    ("asked", "setting"),
    [
        ("max(placed_at)::text", "TimeZone"),
        ("max(placed_at)::timetz", "TimeZone"),
        ("to_jsonb(max(placed_at))", "TimeZone"),
        ("max((placed_at at time zone 'UTC')::date)::text", "DateStyle"),
        ("(max(placed_at) - min(placed_at))::text", "IntervalStyle"),
        ("avg(amount)::float8::text", "extra_float_digits"),
        ("convert_to(max(status), 'UTF8')::text", "bytea_output"),
        ("xmlparse(content max(status))::text::xml::text", "xmloption"),
    ],
)
def test_what_a_reader_s_setting_would_change_is_found(
    shop: Database, asked: str, setting: str
) -> None:
    halves = split(shop, f"select {asked} as x from orders where amount < 9", "Europe/Berlin")
    if setting == "xmloption":
        with pytest.raises(LoaderError, match="invalid XML document"):
            halves.prove()
        return
    assert setting in halves.prove().settings
