"""A fact of three tables with sums, days, conditions and a slot, and the tables that feed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Context, Decimal
from random import Random
from typing import Any

from testkit.facts import column
from tests.spark.support import Source
from waltally.database import Connection
from waltally.facts import Fact, parse
from waltally.tables import Table

TABLES = """
    create table orders (
        shop_id integer, id integer, channel text, size numeric(6, 2), is_gift boolean,
        amount numeric, currency text, placed_at timestamptz, is_test boolean,
        deleted date, note text, primary key (id)
    );
    create table "Old Orders" (
        shop_id integer, id integer, channel text, size numeric(6, 2), is_gift boolean,
        "Grand""Total" numeric, currency text, "Placed At" timestamp, is_test boolean,
        deleted date, primary key (id)
    );
    create table refunds (
        shop_id integer, id integer, channel text, size numeric(6, 2), is_gift boolean,
        refunded numeric(12, 2), currency text, placed_at date, is_test boolean,
        deleted date, primary key (id)
    );
    alter table orders
        add check (size <> 'NaN' and amount < 'Infinity' and amount > '-Infinity');
    alter table "Old Orders" add check (size <> 'NaN'),
        add check ("Grand""Total" < 'Infinity'), add check ("Grand""Total" > '-Infinity');
    alter table refunds add check (size <> 'NaN' and refunded <> 'NaN');
    alter table orders replica identity full;
    alter table "Old Orders" replica identity full;
    alter table refunds replica identity full;
    -- What was ever archived: deletes of it are ignored.
    create table kept (like "Old Orders" including all);
    create sequence purged increment -1;
    create function keep() returns trigger language plpgsql as $$
    begin
        if tg_op = 'TRUNCATE' then
            truncate kept;
        elsif tg_op = 'DELETE' then
            update kept set id = nextval('purged') where id = old.id;
        else
            delete from kept where tg_op = 'UPDATE' and id = old.id;
            insert into kept select new.*;
        end if;
        return null;
    end $$;
    create trigger keep after insert or update or delete on "Old Orders"
        for each row execute function keep();
    create trigger keep_all after truncate on "Old Orders"
        for each statement execute function keep();
"""

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
            sum(placed), sum(archived), coalesce(trim_scale(sum(amount)), 0),
            coalesce(trim_scale(sum(refunded)), 0), count(*) filter (where is_summer),
            coalesce(trim_scale(sum(amount) filter (
                where placed = 1 and amount >= 0.1 and channel in ('web', '')
            )), 0),
            coalesce(trim_scale(sum(amount * amount)), 0),
            coalesce(trim_scale(sum(refunded * size)), 0)
        ]::text[],
        md5(row(source, shop_id, channel, size, is_gift, day, month)::text)::uuid::text
    from valued
    group by source, shop_id, channel, size, is_gift, day, month
"""
"""What the fact must hold, and each id; `archived` is the table, or what was ever in it."""

_ARCHIVED_COLUMNS = {"amount": 'Grand"Total', "placed_at": "Placed At"}


def _time(unit: str) -> dict[str, Any]:
    zones = {"timezone": "Europe/London", "column_timezone": "America/New_York"}
    return column(unit, "date", kind="period", unit=unit, column="placed_at", **zones)


def _measure(
    name: str, type_: str, *of: str, columns: tuple[str, ...] = (), where: tuple[Any, ...] = ()
) -> Any:
    return {
        "name": name,
        "kind": "sum" if columns else "count",
        "columns": list(columns),
        "of": list(of),
        "type": type_,
        "where": list(where),
    }


def _where(column: str, test: str, *values: str, is_null: bool | None = None) -> dict[str, Any]:
    return {"column": column, "test": test, "values": list(values), "is_null": is_null}


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
        for name, table, columns in (
            ("placed", "orders", {}),
            ("archived", "Old Orders", _ARCHIVED_COLUMNS),
            ("refunds", "refunds", {}),
        )
    ],
    "dimensions": [
        column("source", "text", kind="slot", column=None),
        column("shop_id", "integer"),
        column("channel", "text", nulls="count"),
        column("size", "numeric(6, 2)", nulls="count"),
        column("is_gift", "boolean", nulls="count"),
        _time("day"),
        _time("month"),
    ],
    "measures": [
        _measure("placed_count", "bigint", "placed"),
        _measure("archived_count", "bigint", "archived"),
        _measure("amount", "numeric", "placed", "archived", columns=("amount",)),
        _measure("refunded", "numeric(12, 2)", "refunds", columns=("refunded",)),
        _measure(
            "summer_count",
            "bigint",
            *("placed", "archived", "refunds"),
            where=(
                _where("placed_at", "at_least", "2026-03-29 01:00:00"),
                _where("placed_at", "below", "2026-10-25"),
            ),
        ),
        _measure(
            "large_amount",
            "numeric",
            "placed",
            columns=("amount",),
            where=(_where("amount", "at_least", "0.1"), _where("channel", "in", "web", "")),
        ),
        _measure("spread", "numeric", "placed", "archived", columns=("amount", "amount")),
        _measure("refunded_sizes", "numeric(20, 4)", "refunds", columns=("refunded", "size")),
    ],
    "where": [
        _where("currency", "in", "GBP", "EUR"),
        _where("is_test", "not_in", "true"),
        _where("deleted", "is_null", is_null=True),
        _where("placed_at", "below", "9999-12-31"),
    ],
    "key": [],
}


def orders(schema: str = "analytics") -> Fact:
    """Return the fact ft_orders in this dbt schema."""
    return parse("ft_orders", Table(schema, "ft_orders"), ORDERS)


_MOMENTS = (
    # Around both changes of clock in London and in New York, around midnight, and far away.
    *("2026-03-29 00:59:59.999999", "2026-03-29 01:30:00", "2026-10-25 00:30:00"),
    *("2026-10-25 01:30:00", "2026-11-01 00:30:00", "2026-11-01 01:30:00", "2026-11-01 05:30:00"),
    *("2026-03-08 02:30:00", "2026-06-30 22:59:59", "2026-06-30 23:00:00", "2026-12-31 23:59:59"),
    *("0001-01-02 00:00:00", "1890-07-01 23:30:00", "9999-12-30 12:00:00"),
)
_AMOUNTS = (
    *("0", "0.01", "-0.01", "12.50", "-7.125", "0.1", "0.2", "99999999999999999999.999999999999"),
    *("-0.000000000000000000000000000000000001", "123456789012345678901234567890123456789.5"),
)


class _RolledBack(Exception):
    """Ends a transaction without its changes."""


class Shop:
    """The tables of the fact, and a random history of them."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self.connection = connection
        self.dice = Random(seed)
        self.last_id = 0

    def create(self) -> None:
        self.connection.ask(TABLES)

    def recount(self, slot: str, archived: str = "kept") -> dict[tuple[Any, ...], list[str]]:
        """What the fact must hold: sums by group."""
        query = RECOUNT.format(archived=archived, slot=slot)
        return {tuple(row[0]): row[1] for row in self.connection.ask(query)}

    def ids(self, slot: str) -> dict[tuple[Any, ...], str]:
        """The id of each group, as the database makes it."""
        query = RECOUNT.format(archived="kept", slot=slot)
        return {tuple(row[0]): row[2] for row in self.connection.ask(query)}

    def write(self, transactions: int, truncates: bool = True) -> None:
        """Every kind of change, several in a transaction, and some that are rolled back."""
        for _ in range(transactions):
            with suppress(_RolledBack), self.connection.transaction():
                for _ in range(self.dice.randint(1, 4)):
                    self.change(truncates)
                if self.dice.random() < 0.1:
                    raise _RolledBack

    def change(self, truncates: bool) -> None:
        table = self.dice.choice(("orders", "orders", '"Old Orders"', "refunds"))
        kind = self.dice.choices(
            (self.insert, self.update, self.delete, self.archive, self.truncate),
            (10, 6, 3, 2, 0.2 if truncates else 0),
        )[0]
        kind(table)

    def insert(self, table: str) -> None:
        self.last_id += 1
        values = {"id": self.last_id, **{name: self.value(table, name) for name in _SHARED}}
        for name in _OWN[table]:
            values[name] = self.value(table, name)
        names = ", ".join(f'"{name}"' for name in (each.replace('"', '""') for each in values))
        marks = ", ".join("%s" for _ in values)
        self.connection.ask(
            f"insert into {table} ({names}) values ({marks})", list(values.values())
        )

    def update(self, table: str) -> None:
        name = self.dice.choice((*_SHARED, *_OWN[table]))
        quoted = name.replace('"', '""')
        self.connection.ask(
            f'update {table} set "{quoted}" = %s where id in'
            f" (select id from {table} order by random() limit 2)",
            (self.value(table, name),),
        )

    def delete(self, table: str) -> None:
        self.connection.ask(
            f"delete from {table} where id in (select id from {table} order by random() limit 2)"
        )

    def archive(self, _: str) -> None:
        self.connection.ask(
            "with gone as (delete from orders where id in"
            " (select id from orders order by random() limit 2) returning *)"
            ' insert into "Old Orders" select shop_id, id, channel, size, is_gift, amount,'
            " currency, placed_at at time zone 'America/New_York', is_test, deleted from gone"
        )

    def truncate(self, table: str) -> None:
        self.connection.ask(f"truncate {table}")

    def value(self, table: str, name: str) -> str | None:
        """A value for a column; null now and then."""
        if self.dice.random() < 0.05:
            return None
        choices: dict[str, tuple[str, ...]] = {
            "shop_id": ("1", "1", "2", "-2147483648"),
            "channel": ("web", 'a "b" \\ (c),', "", "ünï"),
            "size": ("1", "7.50", "-0.05", "1234.56"),
            "is_gift": ("true", "false"),
            "currency": ("GBP", "GBP", "EUR", "USD"),
            "is_test": ("false", "false", "false", "true"),
            "deleted": ("2026-01-01",),
            "amount": _AMOUNTS,
            'Grand"Total': _AMOUNTS,
            "refunded": ("0.01", "-3.30", "999999.99"),
            "Placed At": _MOMENTS,
            "placed_at": _MOMENTS,
        }
        if name == "deleted" and self.dice.random() < 0.9:
            return None
        text = self.dice.choice(choices[name])
        return f"{text}+00" if name == "placed_at" and table == "orders" else text


_SHARED = ("shop_id", "channel", "size", "is_gift", "currency", "is_test", "deleted")
_OWN = {
    "orders": ("amount", "placed_at"),
    '"Old Orders"': ('Grand"Total', "Placed At"),
    "refunds": ("refunded", "placed_at"),
}


Group = tuple[Any, ...]
EXACT = Context(prec=1000)


def total(stored: dict[Group, list[Decimal]]) -> dict[Group, list[Decimal]]:
    """Add up what the parts of a fact have of each group."""
    found: dict[Group, list[Decimal]] = {}
    for (_, *dimensions), measures in stored.items():
        group = tuple(dimensions)
        before = found.get(group, [Decimal(0)] * len(measures))
        found[group] = [EXACT.add(*each) for each in zip(before, measures, strict=True)]
    return found


def recounted(shop: Shop, slot: str, archived: str = '"Old Orders"') -> dict[Group, list[Decimal]]:
    counted = shop.recount(slot, archived)
    return {group: list(map(Decimal, measures)) for group, measures in counted.items()}


@contextmanager
def a_shop(source: Source) -> Iterator[Shop]:
    """Fill the tables of ft_orders and register it alone."""
    with source.session() as session:
        shop = Shop(session, seed=5)
        shop.create()
        shop.write(150, truncates=False)
        source.execute("update orders set shop_id = null where id < 4")
        source.execute("delete from cdc.fact")
        source.register(ORDERS, "ft_orders")
        yield shop
