"""Facts of several tables with days, sums, conditions and names of any kind, against a recount."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.dbt.staged import Warehouse
from tests.dbt.workload import Row, change

ORDERS, HOURS = "ft_orders", "ft_hours"

TABLES = """
create schema shop;
create table shop.orders (
    id integer, "Channel" text, placed_at timestamp, amount numeric, state text, is_test boolean
);
create table shop."Refunds, all" (
    id integer, source text, refunded_at timestamptz, value numeric, state text, is_test boolean
);
"""


class Shop:
    """A shop's tables, and the changes that make them what they are."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        warehouse.execute("set timezone = 'UTC'; set datestyle = 'ISO';" + TABLES)

    def put(self, table: str, **values: Any) -> Row:
        """Put a row in, and return the change."""
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join(["%s"] * len(values))
        self.warehouse.execute(
            f'insert into shop."{table}" ({names}) values ({marks})', *values.values()
        )
        return change("I", f"shop.{table}", new=self.find(table, values["id"]))

    def find(self, table: str, key: int) -> Row:
        """A row as the plugin prints it."""
        found: Row = self.warehouse.execute(
            f'select to_jsonb(r) from shop."{table}" as r where r.id = %s', key
        )[0][0]
        for name in ("placed_at", "refunded_at"):
            if found.get(name):
                found[name] = self.warehouse.execute(
                    f'select {name}::text from shop."{table}" where id = %s', key
                )[0][0]
        return found

    def change(self, table: str, key: int, setting: str) -> Row:
        """Update a row, and return the change."""
        old = self.find(table, key)
        self.warehouse.execute(f'update shop."{table}" set {setting} where id = %s', key)
        return change("U", f"shop.{table}", old, self.find(table, key))

    def remove(self, table: str, key: int) -> Row:
        """Delete a row, and return the change."""
        old = self.find(table, key)
        self.warehouse.execute(f'delete from shop."{table}" where id = %s', key)
        return change("D", f"shop.{table}", old)

    def truncate(self, table: str) -> Row:
        """Truncate a table, and return the change."""
        self.warehouse.execute(f'truncate shop."{table}"')
        return change("T", f"shop.{table}")


RECOUNT = """
select
    "Channel",
    day::text,
    count(*) filter (where is_order),
    count(*),
    coalesce(sum(amount), 0),
    coalesce(sum(amount) filter (where is_order), 0),
    avg(coalesce(amount, 0)) filter (where is_order)::numeric(8, 2)
from (
    select
        true as is_order,
        "Channel",
        (placed_at at time zone 'UTC' at time zone 'Europe/London')::date as day,
        amount,
        state,
        is_test
    from shop.orders
    union all
    select false, source, (refunded_at at time zone 'Europe/London')::date, value, state, is_test
    from shop."Refunds, all"
) as rows_of_both
where day is not null and state in ('paid', 'sent') and not is_test
group by 1, 2
order by 1, 2
"""


def recounted(warehouse: Warehouse) -> None:
    """The fact equals a recount by PostgreSQL's own conversions."""
    assert totals(warehouse) == warehouse.execute(RECOUNT)


def totals(warehouse: Warehouse) -> list[Any]:
    return warehouse.execute(
        'select "Channel", day::text, order_count, row_count, "Net, total", gross, '
        "mean::numeric(8, 2) from analytics.ft_orders where row_count <> 0 order by 1, 2"
    )


def test_a_fact_of_two_tables_follows_all_of_it(warehouse: Warehouse) -> None:
    shop = Shop(warehouse)
    paid = {"state": "paid", "is_test": False}
    warehouse.append(
        [
            shop.put(
                "orders", id=1, Channel="web", placed_at="2026-03-28 23:30", amount="10.25", **paid
            ),
            shop.put(
                "orders", id=2, Channel=None, placed_at="2026-03-29 23:30", amount="-1.5", **paid
            ),
            shop.put(
                "orders", id=3, Channel="web", placed_at="2026-03-28 01:00", amount=None, **paid
            ),
            shop.put(
                "orders", id=4, Channel="web", placed_at="2026-03-28 01:00", amount=99, state="open"
            ),
            shop.put("orders", id=5, Channel="web", placed_at=None, amount=5, **paid),
        ],
        [
            shop.put(
                "Refunds, all", id=1, source="web", refunded_at="2026-03-28 12:00", value=-4, **paid
            )
        ],
    )
    warehouse.build(ORDERS)
    recounted(warehouse)
    assert totals(warehouse) == [
        ("web", "2026-03-28", 2, 3, Decimal("6.25"), Decimal("10.25"), Decimal("5.13")),
        (None, "2026-03-30", 1, 1, Decimal("-1.50"), Decimal("-1.5"), Decimal("-1.50")),
    ]
    warehouse.append(
        [
            shop.change("orders", 4, "state = 'sent'"),
            shop.change("orders", 1, "is_test = true"),
            shop.change("orders", 2, "\"Channel\" = 'web', placed_at = '2026-10-25 00:30'"),
            shop.change("orders", 3, "amount = 0.01"),
            shop.remove("orders", 5),
        ]
    )
    warehouse.build(ORDERS)
    recounted(warehouse)
    warehouse.append(
        [shop.truncate("orders")],
        [shop.put("orders", id=9, Channel="x", placed_at="2026-01-01", amount=1, **paid)],
    )
    warehouse.build(ORDERS)
    recounted(warehouse)
    before = totals(warehouse)
    assert [line[0] for line in before] == ["web", "x"]
    warehouse.build(ORDERS, refresh=True)
    assert totals(warehouse) == before
    left_out = "select left_out from cdc.model_watermark where model_name = 'analytics.ft_orders'"
    assert warehouse.execute(left_out) == [({"orders": 0, "refunds": 0},)]


def test_a_truncate_that_needs_what_is_pruned_is_refused(warehouse: Warehouse) -> None:
    """A measure of two tables holds what both added, mixed."""
    shop = Shop(warehouse)
    paid = {"state": "paid", "is_test": False}
    warehouse.append(
        [shop.put("orders", id=1, Channel="a", placed_at="2026-01-01", amount=1, **paid)]
    )
    warehouse.build(ORDERS)
    warehouse.prune()
    warehouse.append([shop.truncate("orders")])
    before = totals(warehouse)
    said = warehouse.refused(ORDERS)
    assert "is pruned" in said
    assert "spark/seed.py --fact ft_orders" in said.split("HINT")[1]
    assert totals(warehouse) == before
    warehouse.seed_fact("ft_orders", {"orders": {("b", "2026-01-02"): [1, 1, "2.5", "2.5"]}})
    warehouse.build(ORDERS)
    assert [line[:3] for line in totals(warehouse)] == [("b", "2026-01-02", 1)]


def test_a_fact_of_three_tables_starts_from_its_baseline(warehouse: Warehouse) -> None:
    slot = "waltally"
    warehouse.seed_fact(
        "ft_hours",
        {
            "entries": {(slot, "7", "2026-07-01"): ["12345678901234567890.125", 0, 0]},
            "leave": {(slot, "7", "2026-07-01"): [0, 0, 3]},
        },
    )
    entry = {"project": 7, "at": "2026-06-30 12:30:00", "hours": -0.125}
    warehouse.append(
        [
            change("I", "time.entries", new=entry),
            change("I", "time.plans", new={**entry, "hours": 8}),
            # A table of which nothing is summed needs no such column.
            change("D", "time.leave", old={"project": 7, "at": "2026-07-01 00:00:00+00"}),
        ]
    )
    for refresh in (False, True):
        warehouse.build(HOURS, refresh=refresh)
        assert warehouse.execute(
            "select office, project, month::text, hours, planned, absences from analytics.ft_hours"
        ) == [(slot, 7, "2026-07-01", Decimal("12345678901234567890.000"), Decimal(8), 2)]
    warehouse.append([change("T", "time.plans")])
    warehouse.build(HOURS)
    assert warehouse.execute("select planned, absences from analytics.ft_hours") == [(0, 2)]


def test_a_bad_value_is_listed_and_the_rest_counts(warehouse: Warehouse) -> None:
    shop = Shop(warehouse)
    paid = {"state": "paid", "is_test": False}
    good = shop.put("orders", id=1, Channel="a", placed_at="2026-01-01", amount=1, **paid)
    bad = {**{each["name"]: each["value"] for each in good["columns"]}, "amount": 1.005}
    warehouse.append([good, change("I", "shop.orders", new=bad)])
    warehouse.build(ORDERS)
    assert [line[2] for line in totals(warehouse)] == [1]
    assert warehouse.execute("select fact, ordinal, reason from analytics.rejected_changes") == [
        ("analytics.ft_orders", 2, "the value of amount has more than 2 decimals")
    ]


def test_a_total_that_its_type_cannot_hold_stops_the_fact_as_it_was(warehouse: Warehouse) -> None:
    shop = Shop(warehouse)
    paid = {"state": "paid", "is_test": False, "Channel": "a", "placed_at": "2026-01-01"}
    largest, stored = "9999999999.99", 'select order_count, "Net, total" from analytics.ft_orders'
    warehouse.append([shop.put("orders", id=1, amount=largest, **paid)])
    warehouse.build(ORDERS)
    before = warehouse.execute(stored)
    warehouse.append([shop.put("orders", id=2, amount=largest, **paid)])
    assert "numeric field overflow" in warehouse.refused(ORDERS)
    assert warehouse.execute(stored) == before
    warehouse.append([shop.remove("orders", 2)])
    warehouse.build(ORDERS)
    assert warehouse.execute(stored) == before == [(1, Decimal(largest))]
