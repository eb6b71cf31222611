"""The shop for the demo and the tests."""

from __future__ import annotations

from pathlib import Path

from demo.example import Example
from examples.shop.changes import CHANGES, TRUNCATES
from examples.shop.session import ShopSession
from testkit.comparison import Recount
from testkit.source import transaction
from testkit.traffic import Sessions

_HERE = Path(__file__).parent


def create(dsn: str) -> None:
    """Make the empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "source.sql").read_text())


def fill(dsn: str, rows: int, seed: int) -> None:
    """Fill the empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "fill.sql").read_text(), {"rows": rows, "seed": seed})
        cursor.execute('analyze "Web Shop"."Customers", "Web Shop"."Orders", "Web Shop"."Parcels"')


def traffic(dsn: str, *, seed: int, rate: float | None, truncates: bool) -> Sessions[ShopSession]:
    """Four sessions that write orders."""
    changes = CHANGES | TRUNCATES if truncates else CHANGES
    return Sessions(dsn, ShopSession, changes, seed=seed, rate=rate)


ORDERS = Recount(
    "ft_orders",
    keys=("day", "channel"),
    values=("order_count", "paid_count", "refund_count", "amount", "revenue", "average_amount"),
    query="""
        select
            ("placedAt" at time zone 'Europe/Berlin')::date,
            "Channel",
            count(*),
            count(*) filter (where "Status" in ('paid', 'sent')),
            count(*) filter (where "Total, gross" < 0),
            coalesce(sum("Total, gross"), 0),
            coalesce(sum("Quantity" * "Unit price"), 0),
            round(coalesce(sum("Total, gross"), 0) / count(*), 2)
        from "Web Shop"."Orders"
        where "Status" <> 'draft'
        group by 1, 2
    """,
)

CUSTOMERS = Recount(
    "customers",
    keys=("Customer no",),
    values=("Name", "Region"),
    query='select "Customer no", "Name", "Region" from "Web Shop"."Customers"',
    is_rows=True,
)

_MONTH = """date_trunc('month', "sentAt" at time zone 'Europe/Berlin')::date"""

PARCELS = Recount(
    "ft_parcels",
    keys=("month", "customer_no", "days"),
    values=("parcel_count",),
    query=f"""
        select {_MONTH}, "Customer no", "Days", count(*)
        from "Web Shop"."Parcels"
        group by 1, 2, 3
    """,
)

REGIONS = Recount(
    "ft_regions",
    keys=("month", "region"),
    values=(
        "parcel_count",
        "customer_count",
        "average_days",
        "longest_days",
        "parcels_per_customer",
    ),
    query=f"""
        select
            {_MONTH},
            "Region",
            count(*),
            count(distinct "Customer no"),
            round(avg("Days"), 2),
            max("Days"),
            round(count(*)::numeric / nullif(count(distinct "Customer no"), 0), 2)
        from "Web Shop"."Parcels"
        left join "Web Shop"."Customers" using ("Customer no")
        group by 1, 2
    """,
)

REGION_PARCELS = Recount(
    "ft_region_parcels",
    keys=("month", "region", "customer_no", "days"),
    values=("parcel_count",),
    query=f"""
        select {_MONTH}, "Region", "Customer no", "Days", count(*)
        from "Web Shop"."Parcels"
        left join "Web Shop"."Customers" using ("Customer no")
        group by 1, 2, 3, 4
    """,
)

EXAMPLE = Example(
    name="shop",
    slots=("shop",),
    about="orders, refunds, new prices, parcels, customers who move, deletes, rollbacks",
    create=create,
    fill=fill,
    traffic=traffic,
    recounts=(ORDERS, CUSTOMERS, PARCELS, REGION_PARCELS, REGIONS),
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
