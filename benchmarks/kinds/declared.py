"""What is measured: models, each with the queries that say whether it is right.

All read one table, and its `place` decides the group: there are 150, whatever a kind adds. What a
period, a bucket, a path or a sum reads differs within a group too, by the row's id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TABLES = """
create table sales (
    id bigint primary key,
    place integer not null,
    channel text not null generated always as ('channel ' || place::text) stored,
    product text not null generated always as ('product ' || place::text) stored,
    coupon text generated always as (case when place % 3 > 0 then 'coupon' end) stored,
    customer_id uuid not null generated always as (md5(place::text)::uuid) stored,
    is_paid boolean not null generated always as (place % 2 = 0) stored,
    state integer not null generated always as (place % 4) stored,
    weight numeric(4, 1) not null generated always as (place / 10.0) stored,
    placed_on date not null generated always as (date '2026-01-01' + place) stored,
    paid_at timestamptz not null generated always as (to_timestamp(1767225600 + place)) stored,
    placed_at timestamptz not null
        generated always as (to_timestamp(1767225600 + place * 3600 + id % 900)) stored,
    quantity integer not null generated always as (1 + place % 10 * 10 + id % 10) stored,
    price numeric(10, 2) not null generated always as (1 + id * 7919 % 100000 / 100.0) stored,
    details jsonb not null generated always as (
        ('{"line": ' || (id % 10)::text || ', "to": {"zone": ' || place::text || '}}')::jsonb
    ) stored,
    note text not null default repeat('x', 200),
    check (weight between 0 and 100),
    check (price between 0 and 10000)
);
alter table sales replica identity full;
create table customers (id uuid primary key, region text not null);
"""
CHANGES = """
insert into customers
select md5(n::text)::uuid, 'region ' || n %% 5 from generate_series(0, 149) as n
where %(round)s = 0;
insert into sales (id, place)
select n, n %% 150
from generate_series(%(round)s * %(third)s::bigint, (%(round)s + 1) * %(third)s - 1) as n;
update sales set place = (place + 1) %% 150
where id >= (%(round)s - 1) * %(third)s and id < %(round)s * %(third)s;
delete from sales where id < (%(round)s - 1) * %(third)s
"""
"""A row is inserted in one round, moved to another group in the next, deleted in the third."""

VALUES = """
create table values_{size} (
    id bigint primary key,
    value integer not null generated always as (id / {each}) stored,
    place integer not null default 1
);
alter table values_{size} replica identity full;
"""
NEW_VALUES = """
insert into values_{size} (id) select generate_series(%(first)s::bigint, %(last)s);
"""
OLD_VALUES = "delete from values_{size} where id < %(kept)s"
PARENTS = """
create table places_{0} (id integer primary key, name text not null);
insert into places_{0} values (1, 'one');
"""
KEPT = "select pg_total_relation_size('analytics.ft_{size}_rolled__values_0') / 1e6::float8"

_BERLIN = {"timezone": "Europe/Berlin"}
_PRODUCT = {"product": ["quantity", "price"]}
_DIMENSIONS: dict[str, tuple[str, object, str]] = {
    "text": ("product", "text", "product"),
    "text, nulls count": ("coupon", {"type": "text", "nulls": "count"}, "coupon"),
    "uuid": ("customer_id", "uuid", "customer_id"),
    "boolean": ("is_paid", "boolean", "is_paid"),
    "integer": ("state", "integer", "state"),
    "integer, labels": (
        "state",
        {"type": "integer", "labels": {"0": "draft", "1": "paid"}},
        "case state when 0 then 'draft' when 1 then 'paid' else state::text end",
    ),
    "numeric(4, 1)": ("weight", "numeric(4, 1)", "weight"),
    "date": ("placed_on", "date", "placed_on"),
    "timestamptz": ("paid_at", "timestamptz", "paid_at"),
    "date_of": (
        "added",
        {"date_of": "placed_at", **_BERLIN},
        "(placed_at at time zone 'Europe/Berlin')::date",
    ),
    "hour_of": (
        "added",
        {"hour_of": "placed_at", **_BERLIN},
        "date_trunc('hour', placed_at, 'Europe/Berlin')",
    ),
    "week_of": (
        "added",
        {"week_of": "placed_at", **_BERLIN},
        "date_trunc('week', placed_at at time zone 'Europe/Berlin')::date",
    ),
    "bucket_of, every": (
        "added",
        {"bucket_of": "placed_at", "every": "15 minutes"},
        "date_bin('15 minutes', placed_at, timestamptz '2026-01-01 00:00:00+00')",
    ),
    "bucket_of, bounds": (
        "added",
        {"bucket_of": "quantity", "bounds": [1, 11, 21, 51]},
        "(array[1, 11, 21, 51])[width_bucket(quantity, array[1, 11, 21, 51])]",
    ),
    "path": ("added", {"path": ["to", "zone"], "of": "details"}, "details #>> '{to,zone}'"),
    "from slot": ("added", {"from": "slot"}, "current_database()::text"),
}
_MEASURES: dict[str, tuple[dict[str, object], str]] = {
    "count where in": (
        {"count": "sales", "where": {"coupon": {"in": ["coupon", "gift"]}}},
        "count(*) filter (where coupon in ('coupon', 'gift'))",
    ),
    "count where is_null": (
        {"count": "sales", "where": {"coupon": {"is_null": True}}},
        "count(*) filter (where coupon is null)",
    ),
    "count where at_least, a number": (
        {"count": "sales", "where": {"quantity": {"at_least": 51}}},
        "count(*) filter (where quantity >= 51)",
    ),
    "count where below, a time": (
        {"count": "sales", "where": {"placed_at": {"below": "2026-01-03"}}},
        "count(*) filter (where placed_at < '2026-01-03 00:00:00+00')",
    ),
    "sum of integer": ({"sum": "quantity", "type": "bigint"}, "sum(quantity)"),
    "sum of numeric": ({"sum": "price"}, "sum(price)"),
    "sum as numeric(20, 2)": ({"sum": "price", "type": "numeric(20, 2)"}, "sum(price)"),
    "sum of a product": ({"sum": _PRODUCT}, "sum(quantity * price)"),
    "sum where in": (
        {"sum": "price", "where": {"state": {"in": ["1", "2"]}}},
        "coalesce(sum(price) filter (where state in (1, 2)), 0)",
    ),
}
_ROLL_UPS: dict[str, tuple[dict[str, object], str]] = {
    "sum": ({"sum": "order_count"}, "count(*)"),
    "distinct": ({"distinct": "customer_id"}, "count(distinct customer_id)"),
    "min": ({"min": "quantity"}, "min(quantity)"),
    "max": ({"max": "quantity"}, "max(quantity)"),
    "percentile": (
        {"percentile": 0.95, "of": "quantity"},
        "percentile_disc(0.95) within group (order by quantity)",
    ),
}


@dataclass(frozen=True)
class Subject:
    """Models of one database; `stored` and `recount` are queries that give the same."""

    name: str
    models: dict[str, str]
    stored: str
    recount: str


class _Ref(str):
    """A model's name, as a declaration refers to it."""

    def __repr__(self) -> str:
        return f"ref({str(self)!r})"


def list_kinds() -> list[Subject]:
    """Return the plain count, and for each kind a fact that has this one thing more."""
    return [
        _kind("a plain count"),
        *(
            _kind(f"dimension: {name}", column, sql, group=", 3", dimensions={column: declared})
            for name, (column, declared, sql) in _DIMENSIONS.items()
        ),
        *(
            _kind(f"measure: {name}", "added", sql, measures={"added": declared})
            for name, (declared, sql) in _MEASURES.items()
        ),
        _kind("derived", "added", "count(*) * 2", derived={"added": "order_count * 2"}),
        _kind("where", rows="where state in (1, 2)", where={"state": {"in": ["1", "2"]}}),
    ]


def list_roll_ups() -> list[Subject]:
    """Return a fact of four dimensions, and the same with one roll-up each."""
    finer = {
        "ft_sales": _fact(
            dimensions={"state": "integer", "customer_id": "uuid", "quantity": "integer"}
        )
    }
    rows = _call(
        "current_rows",
        table="public.customers",
        key=["id"],
        columns={"id": "uuid", "region": "text"},
    )
    by_region = _call(
        "roll_up",
        fact=_Ref("ft_sales"),
        lookups={"customer": {"rows": _Ref("customers"), "by": {"id": "customer_id"}}},
        dimensions={"region": "customer.region"},
        measures={"added": {"sum": "order_count"}},
    )
    return [
        Subject(
            "none",
            finer,
            "select channel, state, customer_id, quantity, order_count from analytics.ft_sales "
            "where order_count <> 0",
            "select channel, state, customer_id, quantity, count(*) from sales group by 1, 2, 3, 4",
        ),
        *(
            Subject(
                name,
                finer | {"ft_rolled": _roll_up("ft_sales", "state", declared)},
                "select state, added from analytics.ft_rolled where coalesce(added, 0) <> 0",
                f"select state, {sql} from sales group by state",
            )
            for name, (declared, sql) in _ROLL_UPS.items()
        ),
        Subject(
            "sum by a lookup's column",
            finer | {"customers": rows, "ft_rolled": by_region},
            "select region, added from analytics.ft_rolled where added <> 0",
            "select region, count(*) from sales join customers as c on c.id = customer_id "
            "group by region",
        ),
    ]


def list_distinct(sizes: Iterable[int]) -> list[Subject]:
    """Return for each size a fact of values, and the number of them by place."""
    return [
        Subject(
            f"{size}",
            {
                f"ft_{size}": _value_fact(size),
                f"ft_{size}_rolled": _roll_up(f"ft_{size}", "place", {"distinct": "value"}),
            },
            f"select place, added from analytics.ft_{size}_rolled where added <> 0",
            f"select place, count(distinct value) from values_{size} group by place",
        )
        for size in sizes
    ]


def list_parents(sizes: Iterable[int]) -> list[Subject]:
    """Return for each size a fact of values, and their number by the name of their place."""
    other = {
        "ft_others": _call(
            "fact",
            tables={"rows": "public.values_0"},
            dimensions={"place": "integer"},
            measures={"row_count": {"count": "rows"}},
        )
    }
    return [
        Subject(
            f"{size}",
            other
            | {
                f"ft_{size}": _value_fact(size),
                f"places_{size}": _call(
                    "current_rows",
                    table=f"public.places_{size}",
                    key=["id"],
                    columns={"id": "integer", "name": "text"},
                ),
                f"ft_{size}_rolled": _call(
                    "roll_up",
                    fact=_Ref(f"ft_{size}"),
                    lookups={"place": {"rows": _Ref(f"places_{size}"), "by": {"id": "place"}}},
                    dimensions={"name": "place.name"},
                    measures={"row_count": {"sum": "row_count"}, "added": {"distinct": "value"}},
                ),
            },
            f"select name, row_count, added from analytics.ft_{size}_rolled where row_count <> 0",
            f"select name, count(*), count(distinct value) from values_{size} as v "
            f"inner join places_{size} as p on p.id = v.place group by name",
        )
        for size in sizes
    ]


def _value_fact(size: int) -> str:
    return _call(
        "fact",
        tables={"rows": f"public.values_{size}"},
        dimensions={"place": "integer", "value": "integer"},
        measures={"row_count": {"count": "rows"}},
    )


def _kind(
    name: str, column: str = "", sql: str = "", group: str = "", rows: str = "", **added: object
) -> Subject:
    stored, counted = (f", {column}", f", {sql}") if column else ("", "")
    return Subject(
        name,
        {"ft_sales": _fact(**added)},
        f"select channel, order_count{stored} from analytics.ft_sales where order_count <> 0",
        f"select channel, count(*){counted} from sales {rows} group by channel{group}",
    )


def _fact(**added: Any) -> str:
    plain: dict[str, dict[str, object]] = {
        "tables": {"sales": "public.sales"},
        "dimensions": {"channel": "text"},
        "measures": {"order_count": {"count": "sales"}},
    }
    return _call("fact", **plain | {key: plain.get(key, {}) | added[key] for key in added})


def _roll_up(fact: str, dimension: str, measure: object) -> str:
    dimensions, measures = {dimension: dimension}, {"added": measure}
    return _call("roll_up", fact=_Ref(fact), dimensions=dimensions, measures=measures)


def _call(macro: str, **arguments: object) -> str:
    words = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{{{{ waltally.{macro}({words}) }}}}\n"
