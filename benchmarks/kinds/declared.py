"""What is measured: models, each of which must be equal to its query.

All read one table, and its `place` decides the group: there are 150, whatever a kind adds. What a
period, a bucket, a path or a sum reads differs within a group too, by the row's id.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

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
_BERLIN = {"timezone": "Europe/Berlin"}
_COLUMNS = {
    "text": "product",
    "text, some null": "coupon",
    "uuid": "customer_id",
    "boolean": "is_paid",
    "integer": "state",
    "CASE": "case state when 0 then 'draft' when 1 then 'paid' else state::text end",
    "numeric(4, 1)": "weight",
    "date": "placed_on",
    "timestamptz": "paid_at",
    "day in a zone": "placed_at::date",
    "hour in a zone": "date_trunc('hour', placed_at)",
    "week in a zone": "date_trunc('week', placed_at)",
    "date_bin": "date_bin('15 minutes', placed_at, timestamptz '2026-01-01 00:00:00+00')",
    "width_bucket": "width_bucket(quantity, array[1, 11, 21, 51])",
    "path": "details #>> '{to,zone}'",
}
"""What a model groups by, besides the channel."""
_TOTALS = {
    "filter, in": "count(*) filter (where coupon in ('coupon', 'gift'))",
    "filter, is null": "count(*) filter (where coupon is null)",
    "filter, a number": "count(*) filter (where quantity >= 51)",
    "filter, a time": "count(*) filter (where placed_at < '2026-01-03')",
    "sum of integer": "sum(quantity)",
    "sum of numeric": "sum(price)",
    "sum of a product": "sum(quantity * price)",
    "sum with filter": "sum(price) filter (where state in (1, 2))",
    "average": "round(avg(price), 2)",
    "expression of two": "count(*) * 2 - count(coupon)",
}
_AGGREGATES = {
    "sum": "sum(order_count)",
    "distinct": "count(distinct customer_id)",
    "min": "min(quantity)",
    "max": "max(quantity)",
    "percentile": "percentile_disc(0.95) within group (order by quantity)",
}


@dataclass(frozen=True)
class Subject:
    """Models of one database, each its query, in which what it reads is named as <<name>>."""

    name: str
    models: dict[str, str]
    config: dict[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, str]:
        """The models' files, by name."""
        return {
            name: model_text(query, self.models, self.config) for name, query in self.models.items()
        }

    def asked(self, name: str) -> str:
        """Return the query over what it reads."""
        return _READ.sub(
            lambda read: f"analytics.{read[1]}" if read[1] in self.models else f"public.{read[1]}",
            self.models[name],
        )


_READ = re.compile(r"<<(\w+)>>")


def model_text(query: str, models: Container[str] = (), config: Mapping[str, str] = {}) -> str:
    """Return a model's file: what is no model is a table of the source."""
    given = ", ".join(f"{key}={value!r}" for key, value in config.items())
    text = _READ.sub(
        lambda read: (
            f"{{{{ ref({read[1]!r}) }}}}"
            if read[1] in models
            else f"{{{{ source('app', {read[1]!r}) }}}}"
        ),
        query,
    )
    return f"{{{{ config(materialized='waltally'{given and ', '}{given}) }}}}\n\n{text}\n"


def list_kinds() -> list[Subject]:
    """Return the plain count, and for each kind a model that has this one thing more."""
    return [
        _kind("a plain count"),
        *(_kind(f"column: {name}", f", {sql} as added", ", 2") for name, sql in _COLUMNS.items()),
        *(_kind(f"total: {name}", f", {sql} as added") for name, sql in _TOTALS.items()),
        _kind("where", rows="where state in (1, 2)"),
    ]


def list_roll_ups() -> list[Subject]:
    """Return a model of four columns, and the same with one model above it each."""
    columns = "channel, state, customer_id, quantity"
    finer = {
        "ft_sales": f"select {columns}, count(*) as order_count from <<sales>> group by {columns}"
    }
    by_region = (
        "select c.region, sum(s.order_count) as added from <<ft_sales>> as s "
        "inner join <<current_customers>> as c on c.id = s.customer_id group by c.region"
    )
    return [
        Subject("none", finer),
        *(
            Subject(
                name,
                finer
                | {"ft_rolled": f"select state, {sql} as added from <<ft_sales>> group by state"},
            )
            for name, sql in _AGGREGATES.items()
        ),
        Subject(
            "sum by a joined column",
            finer
            | {
                "current_customers": "select id, region from <<customers>>",
                "ft_rolled": by_region,
            },
        ),
    ]


def list_distinct(sizes: Iterable[int]) -> list[Subject]:
    """Return for each size a model of values, and the number of them by place."""
    return [
        Subject(
            f"{size}",
            {
                f"ft_{size}": _value_model(size),
                f"ft_{size}_rolled": "select place, count(distinct value) as added"
                f" from <<ft_{size}>> group by place",
            },
        )
        for size in sizes
    ]


def list_parents(sizes: Iterable[int]) -> list[Subject]:
    """Return for each size a model of values, and their number by the name of their place."""
    return [
        Subject(
            f"{size}",
            {
                "ft_others": "select place, count(*) as row_count from <<values_0>> group by place",
                f"ft_{size}": _value_model(size),
                f"current_{size}": f"select id, name from <<places_{size}>>",
                f"ft_{size}_rolled": "select p.name, sum(v.row_count) as row_count,"
                f" count(*) as added from <<ft_{size}>> as v"
                f" inner join <<current_{size}>> as p on p.id = v.place group by p.name",
            },
        )
        for size in sizes
    ]


def _value_model(size: int) -> str:
    return f"select place, value, count(*) as row_count from <<values_{size}>> group by 1, 2"


def _kind(name: str, added: str = "", group: str = "", rows: str = "") -> Subject:
    # The added column is the second one where it is grouped by.
    columns, totals = (added, "") if group else ("", added)
    return Subject(
        name,
        {
            "ft_sales": f"select channel{columns}, count(*) as order_count{totals}"
            f" from <<sales>> {rows} group by 1{group}"
        },
        _BERLIN,
    )
