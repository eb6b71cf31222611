"""Wrong rewritings, made on purpose out of right ones, and queries to make them of."""

from __future__ import annotations

import re
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

WRONG = {
    "the day of another zone": [
        ("model", "Europe/Berlin", "UTC"),
        ("model", "Europe/Berlin", "Asia/Tokyo"),
        ("model", "Europe/Berlin", "Europe/London"),
    ],
    "a group of null, or rows without a value, taken for something else": [
        ("model", r"o\.channel AS (channel|first)", r"coalesce(o.channel, 'web') AS \1"),
        ("model", r"o\.channel AS second", "coalesce(o.channel, 'phone') AS second"),
        ("model", r"count\(o?\.?amount\)", "count(*)"),
    ],
    "a condition that is gone, or another one": [
        ("model", r"o\.status <> 'draft'", "true"),
        ("model", r"o\.status <> 'draft'", "o.status <> 'open'"),
        ("model", r"(o\.)?status = 'paid'", "status = 'open'"),
    ],
    "a range that has a day more, or one less": [
        ("view", r" < \$", " <= $"),
        ("view", r" >= \$", " > $"),
    ],
    "a parent that is joined twice": [
        ("model", r"^(select .* from waltally.*)$", r"\1 union all select * from (\1) as x where id % 7 = 0"),
    ],
    "each row counted in place of each value": [("view", r"count\(DISTINCT ", "count(")],
    "groups that HAVING leaves out": [("view", " HAVING .*", "")],
}  # fmt: skip
"""By what is wrong its ways: which half, a pattern and what stands in its place."""


def query(rng: Random) -> str:
    """Return a query of the shop, with or without the customers."""
    is_joined = rng.random() < 0.5
    by = rng.sample(_BY if is_joined else _BY[:4], 2)
    inputs = "orders as o" + (" join customers as c on c.id = o.customer_id" if is_joined else "")
    first = rng.randrange(1, 10)
    return (
        f"select {by[0]} as first, {by[1]} as second, count(*) as orders,"
        f" {', '.join(rng.sample(_ASKED, 2))} from {inputs} where o.status <> 'draft'"
        f" and o.placed_at >= '2026-11-{first:02}' /* :from */"
        f" and o.placed_at < '2026-11-{first + rng.randrange(5, 15):02}' /* :to */"
        f"{' and not c.is_test' if is_joined else ''} group by 1, 2"
        f"{rng.choice(('', ' having count(*) % 2 = 0'))}"
    )


def made_wrong(right: Halves, kind: str, rng: Random) -> Halves | None:
    """Return halves of which one is wrong in such a way, if it can be."""
    for half, pattern, other in rng.sample(WRONG[kind], len(WRONG[kind])):
        halves = Halves(right.plan.copied(), right.original, pb.SelectStmt())
        text = tree.statement(right.select)
        changed = re.sub(pattern, other, text, count=1) if half == "view" else text
        halves.select.CopyFrom(tree.parse(changed)[0])
        if changed != text:
            return halves
        for model in halves.plan.models.values() if half == "model" else ():
            text = model.text
            changed = re.sub(pattern, other, text, count=1)
            if changed != text:
                model.query, model.copied = changed, ""
                return halves
    return None
