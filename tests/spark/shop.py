"""A fact of three tables with sums, days, conditions and a slot, and the tables that feed it."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from testkit.facts import column, condition, day
from tests.spark.support import Source
from waltally.facts import Fact, parse
from waltally.tables import Table

_TABLE = """
    create table {table} (
        shop_id integer, id integer primary key, channel text, size numeric(6, 2), is_gift boolean,
        {amount} {type_}, currency text, {placed} {moment}, is_test boolean, deleted date
    );
    alter table {table} replica identity full;
    insert into {table}
    select
        pick(n, 1, '1', '1', '2', '-2147483648', null)::integer, n,
        pick(n, 2, 'web', 'a "b" \\ (c),', '', 'ünï', null),
        pick(n, 3, '1', '7.50', '-0.05', '1234.56', null)::numeric,
        pick(n, 4, 'true', 'false', null)::boolean,
        pick(
            n, 5, '0', '0.01', '-0.01', '12.50', '-7.125', '0.1', '0.2', null,
            '99999999999999999999.999999999999', '-0.000000000000000000000000000000000001',
            '123456789012345678901234567890123456789.5'
        )::{type_},
        pick(n, 6, 'GBP', 'GBP', 'EUR', 'USD', null),
        -- Around both changes of clock in London and in New York, around midnight, and far away.
        pick(
            n, 7, '2026-03-29 00:59:59.999999', '2026-03-29 01:30:00', '2026-10-25 00:30:00',
            '2026-10-25 01:30:00', '2026-11-01 00:30:00', '2026-11-01 05:30:00',
            '2026-03-08 02:30:00', '2026-06-30 22:59:59', '2026-06-30 23:00:00', null,
            '2026-12-31 23:59:59', '0001-01-02 00:00:00', '9999-12-30 12:00:00'
        )::{moment},
        pick(n, 8, 'false', 'false', 'false', 'true', null)::boolean,
        case when n % 10 = 0 then '2026-01-01'::date end
    from generate_series(1, 120) as n;
"""
TABLES = "".join(
    [
        "create function pick(n integer, place integer, variadic choices text[]) returns text"
        " return choices[1 + (hashint4(n * 10 + place) & 65535) % cardinality(choices)];",
        _TABLE.format(
            table="orders",
            amount="amount",
            placed="placed_at",
            moment="timestamptz",
            type_="numeric",
        ),
        _TABLE.format(
            table='"Old Orders"',
            amount='"Grand""Total"',
            placed='"Placed At"',
            moment="timestamp",
            type_="numeric",
        ),
        _TABLE.format(
            table="refunds",
            amount="refunded",
            placed="placed_at",
            moment="date",
            type_="numeric(60, 2)",
        ),
        # What was ever archived: deletes of it are ignored.
        'create table kept as table "Old Orders"; delete from "Old Orders" where id % 4 = 0',
    ]
)

RECOUNT = """
    with image as (
        select shop_id, channel, size, is_gift, currency, is_test, deleted,
            placed_at at time zone 'Europe/London' as moment, placed_at at time zone 'UTC' as utc,
            1 as placed, 0 as archived, amount, null::numeric as refunded
        from orders
        union all
        select shop_id, channel, size, is_gift, currency, is_test, deleted,
            "Placed At" at time zone 'America/New_York' at time zone 'Europe/London', "Placed At",
            0, 1, "Grand""Total", null
        from {archived}
        union all
        select shop_id, channel, size, is_gift, currency, is_test, deleted, placed_at, placed_at,
            0, 0, null, refunded
        from refunds
    ),

    valued as (
        select '{slot}' as source, shop_id, channel, size, is_gift, moment::date as day,
            date_trunc('month', moment)::date as month, placed, archived, amount, refunded,
            utc >= '2026-03-29 01:00' and utc < '2026-10-25' as is_summer
        from image
        where shop_id is not null and moment is not null
            and currency in ('GBP', 'EUR') and is_test not in (true) and deleted is null
    )

    select
        array[source, shop_id::text, channel, size::text, is_gift::text, day::text, month::text],
        array[
            sum(placed), sum(archived), coalesce(sum(amount), 0), coalesce(sum(refunded), 0),
            count(*) filter (where is_summer),
            coalesce(sum(amount) filter (
                where placed = 1 and amount >= 0.1 and channel in ('web', '')
            ), 0),
            coalesce(sum(amount * amount), 0), coalesce(sum(refunded * size), 0)
        ]
    from valued
    group by source, shop_id, channel, size, is_gift, day, month
"""
"""What the fact must hold; `archived` is the table, or what was ever in it."""


def _day(unit: str) -> dict[str, Any]:
    return day(unit, "placed_at", "Europe/London", unit=unit, column_timezone="America/New_York")


def _sum(name: str, type_: str, *of: str, columns: tuple[str, ...] = (), where: Any = ()) -> Any:
    kind = "sum" if columns else "count"
    measure = {"name": name, "kind": kind, "columns": list(columns), "of": list(of)}
    return {**measure, "type": type_, "where": list(where)}


_PARTS = {
    "placed": ("orders", {}),
    "archived": ("Old Orders", {"amount": 'Grand"Total', "placed_at": "Placed At"}),
    "refunds": ("refunds", {}),
}
_SUMMER = (
    condition("placed_at", "at_least", "2026-03-29 01:00:00"),
    condition("placed_at", "below", "2026-10-25"),
)
_LARGE = (condition("amount", "at_least", "0.1"), condition("channel", "in", "web", ""))
ORDERS: dict[str, Any] = {
    "version": 1,
    "kind": "fact",
    "tables": [
        {
            "name": name,
            "schema": "public",
            "table": table,
            "deletes": "ignore" if name == "archived" else "count",
            "columns": columns,
        }
        for name, (table, columns) in _PARTS.items()
    ],
    "dimensions": [
        column("source", "text", kind="slot", column=None),
        column("shop_id", "integer"),
        column("channel", "text", nulls="count"),
        column("size", "numeric(6, 2)", nulls="count"),
        column("is_gift", "boolean", nulls="count"),
        _day("day"),
        _day("month"),
    ],
    "measures": [
        _sum("placed_count", "bigint", "placed"),
        _sum("archived_count", "bigint", "archived"),
        _sum("amount", "numeric", "placed", "archived", columns=("amount",)),
        _sum("refunded", "numeric(60, 2)", "refunds", columns=("refunded",)),
        _sum("summer_count", "bigint", *_PARTS, where=_SUMMER),
        _sum("large_amount", "numeric", "placed", columns=("amount",), where=_LARGE),
        _sum("spread", "numeric", "placed", "archived", columns=("amount", "amount")),
        _sum("refunded_sizes", "numeric(60, 4)", "refunds", columns=("refunded", "size")),
    ],
    "where": [
        condition("currency", "in", "GBP", "EUR"),
        condition("is_test", "not_in", "true"),
        condition("deleted", "is_null"),
        condition("placed_at", "below", "9999-12-31"),
    ],
    "key": [],
}


def orders() -> Fact:
    """Return the fact ft_orders."""
    return parse("ft_orders", Table("analytics", "ft_orders"), ORDERS)


Group = tuple[Any, ...]
Groups = dict[Group, list[Decimal]]
EXACT = Context(prec=1000)


def recounted(source: Source, archived: str = '"Old Orders"') -> Groups:
    """Return what the fact must hold, by group."""
    query = RECOUNT.format(archived=archived, slot=source.slot)
    return {tuple(group): measures for group, measures in source.execute(query)}


def total(stored: Groups) -> Groups:
    """Add up what the parts of a fact have of each group."""
    found: Groups = {}
    for (_, *group), measures in stored.items():
        found[tuple(group)] = plus(found.get(tuple(group)), measures)
    return found


def plus(one: list[Decimal] | None, other: list[Decimal]) -> list[Decimal]:
    """Add measures of two groups without rounding."""
    pairs = zip(one or [Decimal(0)] * len(other), other, strict=True)
    return [EXACT.add(*map(Decimal, pair)) for pair in pairs]
