"""Wrong rewritings, made on purpose out of right ones, and queries to make them of."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from tests.proposing.support import Halves

SHOP = """
drop schema if exists lab cascade;
create schema lab;
create table lab.customers (id bigint primary key, country text not null, is_test boolean not null);
create table lab.orders (id bigint primary key, customer_id bigint not null, channel text,
    status text not null, amount numeric(10, 2), placed_at timestamptz not null);
insert into lab.customers
select n, (array['DE', 'FR', 'IT'])[n % 3 + 1], n % 5 = 0 from generate_series(1, 400) as n;
insert into lab.orders
select n, r[1] % 400 + 1, (array['web', 'shop', 'phone', null])[r[2] % 4 + 1],
    (array['paid', 'open', 'draft'])[r[3] % 3 + 1],
    case when r[4] % 6 = 0 then null else (r[4] % 5000) / 100.0 end,
    '2026-10-20 00:00+00'::timestamptz + r[5] % 40 * interval '1 day'
        + r[6] % 24 * interval '1 hour'
from generate_series(1, 110000) as n
cross join lateral (
    select array_agg((hashint4extended(n, seed) & 1073741823)::int order by seed) as r
    from generate_series(1, 6) as seed
) as random;
analyze lab.orders;
analyze lab.customers
"""
_ASKED = (
    "count(amount) as priced", "sum(amount) as amount",
    "avg(amount) as average", "count(distinct customer_id) as customers",
    "count(*) filter (where status = 'paid') as paid", "max(amount) as highest",
    "percentile_disc(0.5) within group (order by amount) as usual",
)  # fmt: skip
_BY = (
    "o.channel", "o.status", "(o.placed_at at time zone 'Europe/Berlin')::date",
    "o.customer_id % 7", "c.country",
)  # fmt: skip

Wrong = Callable[[Halves, Random], bool]
"""Changes one half, and says whether it could."""


def query(rng: Random) -> str:
    """Return a query of the shop, with or without the customers; its third column counts rows."""
    is_joined = rng.random() < 0.5
    by = rng.sample(_BY if is_joined else _BY[:4], 2)
    asked = ["count(*) as orders", *rng.sample(_ASKED, 2)]
    inputs = "orders as o" + (" join customers as c on c.id = o.customer_id" if is_joined else "")
    first = rng.randrange(1, 10)
    where = [
        "o.status <> 'draft'",
        f"o.placed_at >= '2026-11-{first:02}' /* :from */",
        f"o.placed_at < '2026-11-{first + rng.randrange(5, 15):02}' /* :to */",
        *(["not c.is_test"] if is_joined else []),
    ]
    return (
        f"select {by[0]} as first, {by[1]} as second, {', '.join(asked)} from {inputs}"
        f" where {' and '.join(where)} group by 1, 2"
    )


def _in_models(halves: Halves, pattern: str, other: str) -> bool:
    for model in halves.book.models:
        changed = re.sub(pattern, other, model.query, count=1)
        if changed != model.query:
            model.query = changed
            return True
    return False


def _in_reads(halves: Halves, pattern: str, other: str) -> bool:
    text = tree.statement(halves.select)
    changed = re.sub(pattern, other, text, count=1)
    halves.select.CopyFrom(tree.parse(changed)[0])
    return changed != text


def other_zone(halves: Halves, rng: Random) -> bool:
    """The day of another zone."""
    return _in_models(halves, "Europe/Berlin", rng.choice(("UTC", "Asia/Tokyo", "Europe/London")))


def lost_nulls(halves: Halves, rng: Random) -> bool:
    """A group of null, or rows without a value, taken for something else."""
    ways = [
        (r"o\.channel AS channel", "coalesce(o.channel, 'web') AS channel"),
        (r"o\.channel AS first", "coalesce(o.channel, 'web') AS first"),
        (r"o\.channel AS second", "coalesce(o.channel, 'phone') AS second"),
        (r"count\(o?\.?amount\)", "count(*)"),
    ]
    rng.shuffle(ways)
    return any(_in_models(halves, *way) for way in ways)


def lost_filter(halves: Halves, rng: Random) -> bool:
    """A condition that is gone, or another one."""
    ways = [
        (r"o\.status <> 'draft'", rng.choice(("true", "o.status <> 'open'"))),
        (r"(o\.)?status = 'paid'", "status = 'open'"),
    ]
    return any(_in_models(halves, *way) for way in rng.sample(ways, 2))


def a_day_too_far(halves: Halves, rng: Random) -> bool:
    """A range that has a day more, or one less."""
    return _in_reads(halves, *rng.choice(((r" < \$", " <= $"), (r" >= \$", " > $"))))


def fan_out(halves: Halves, rng: Random) -> bool:
    """A parent that is joined twice."""
    for model in halves.book.models:
        if model.copied and model.copied == _mark(halves, "customers"):
            own, share = model.text, rng.choice((3, 7, 11))
            model.query = f"{own} union all select * from ({own}) as twice where id % {share} = 0"
            model.copied = ""
            return True
    return False


def _mark(halves: Halves, table: str) -> str:
    numbers = [n for n, one in enumerate(halves.book.sources) if one.table.name == table]
    return f"waltally_source_{numbers[0]}" if numbers else ""


def lost_distinct(halves: Halves, rng: Random) -> bool:
    """Each row counted in place of each value."""
    return _in_reads(halves, r"count\(DISTINCT ", "count(")


def lost_having(halves: Halves, rng: Random) -> bool:
    """Groups that HAVING leaves out."""
    has: bool = halves.select.HasField("having_clause")
    halves.select.ClearField("having_clause")
    return has


WRONG: tuple[Wrong, ...] = (
    other_zone, lost_nulls, lost_filter, a_day_too_far, fan_out, lost_distinct, lost_having,
)  # fmt: skip


def copied(halves: Halves) -> Halves:
    """Return halves that may be changed."""
    from copy import copy

    book = copy(halves.book)
    book.models = [copy(model) for model in book.models]
    select = pb.SelectStmt()
    select.CopyFrom(halves.select)
    return Halves(book, halves.original, select)
