"""The shop for the demo and the tests."""

from __future__ import annotations

from pathlib import Path

from demo.comparison import Recount
from demo.example import Example
from demo.sessions import Sessions
from demo.source import transaction
from examples.shop.changes import CHANGES, TRUNCATES, ShopSession

_HERE = Path(__file__).parent


def create(dsn: str) -> None:
    """Make the empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "source.sql").read_text())


def fill(dsn: str, rows: int, seed: int) -> None:
    """Fill the empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "fill.sql").read_text(), {"rows": rows, "seed": seed})
        cursor.execute('analyze "Web Shop"."Orders"')


def traffic(dsn: str, *, seed: int, rate: float | None, truncates: bool) -> Sessions[ShopSession]:
    """Four sessions that write orders."""
    changes = CHANGES | TRUNCATES if truncates else CHANGES
    return Sessions(dsn, ShopSession, changes, seed=seed, rate=rate)


ORDERS = Recount(
    "ft_orders",
    keys=("day", "channel"),
    values=("order_count", "amount", "average_amount"),
    query="""
        select
            ("placedAt" at time zone 'Europe/Berlin')::date,
            "Channel",
            count(*),
            coalesce(sum("Total, gross"), 0),
            round(coalesce(sum("Total, gross"), 0) / count(*), 2)
        from "Web Shop"."Orders"
        where "Status" <> 'draft'
        group by 1, 2
    """,
)

EXAMPLE = Example(
    name="shop",
    slots=("shop",),
    about="orders, refunds, new prices, deletes, rollbacks",
    create=create,
    fill=fill,
    traffic=traffic,
    recounts=(ORDERS,),
    total="select coalesce(sum(order_count), 0)::bigint from analytics.ft_orders",
    total_of="orders",
    table="""
        select day::text, coalesce(channel, 'unknown'), round(amount, 2)
        from analytics.ft_orders
        where
            day in (select distinct day from analytics.ft_orders order by day desc limit 8)
            and coalesce(channel, 'unknown') in ('web', 'app', 'phone', 'unknown')
    """,
    corner="day",
)
