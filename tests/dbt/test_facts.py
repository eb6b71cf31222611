"""Facts of several tables with sums: their baselines, and what their types cannot hold.

Random histories of them are in tests/properties.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.dbt.staged import Warehouse
from tests.dbt.workload import Row, change

ORDERS, HOURS = "ft_orders", "ft_hours"
SHOP = "shop.orders"


def order(key: int, **changed: Any) -> Row:
    """An order that counts."""
    usual = {"Channel": "a", "placed_at": "2026-01-01 12:00:00", "amount": 1}
    return {"id": key, **usual, "state": "paid", "is_test": False, **changed}


def totals(warehouse: Warehouse) -> list[Any]:
    return warehouse.execute(
        'select "Channel", day::text, order_count, "Net, total" from analytics.ft_orders '
        "where row_count <> 0 order by 1, 2"
    )


def test_a_truncate_that_needs_what_is_pruned_is_refused(warehouse: Warehouse) -> None:
    """A measure of two tables holds what both added, mixed."""
    warehouse.append([change("I", SHOP, new=order(1))])
    warehouse.build(ORDERS)
    warehouse.prune()
    warehouse.append([change("T", SHOP)])
    before = totals(warehouse)
    said = warehouse.refused(ORDERS)
    assert "is pruned" in said
    assert "spark/seed.py --model ft_orders" in said.split("HINT")[1]
    assert totals(warehouse) == before
    warehouse.seed_fact("ft_orders", {"orders": {("b", "2026-01-02"): [1, 1, "2.5", "2.5"]}})
    warehouse.build(ORDERS)
    assert totals(warehouse) == [("b", "2026-01-02", 1, Decimal("2.5"))]


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


def test_a_bad_value_is_listed_and_a_total_that_does_not_fit_stops_the_fact_as_it_was(
    warehouse: Warehouse,
) -> None:
    largest = "9999999999.99"
    good, bad = order(1, amount=largest), order(2, amount=1.005)
    warehouse.append([change("I", SHOP, new=good), change("I", SHOP, new=bad)])
    warehouse.build(ORDERS)
    before = [("a", "2026-01-01", 1, Decimal(largest))]
    assert totals(warehouse) == before
    assert warehouse.execute("select fact, ordinal, reason from analytics.rejected_changes") == [
        ("analytics.ft_orders", 2, "the value of amount has more than 2 decimals")
    ]
    warehouse.append([change("I", SHOP, new=order(3, amount=largest))])
    assert "numeric field overflow" in warehouse.refused(ORDERS)
    assert totals(warehouse) == before
    warehouse.append([change("D", SHOP, old=order(3, amount=largest))])
    warehouse.build(ORDERS)
    assert totals(warehouse) == before
