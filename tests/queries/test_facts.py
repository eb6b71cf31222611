"""A fact equals its query after each batch of a random history, however it is cut."""

from __future__ import annotations

from random import Random
from typing import Any

import psycopg2
import pytest

from testkit.comparison import apart
from tests.queries.lab import Lab, Model
from tests.queries.odd import Writer

BERLIN = {"timezone": "Europe/Berlin"}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "by_day": (
        """select (at at time zone 'Europe/Berlin')::date as day, mood, count(*) as n,
        sum(amount) as amount, count(*) filter (where flag) as flags,
        round(avg(amount), 2) as average from {a} where name <> 'draft' or name is null
        group by 1, 2""",
        {"surrogate_key": "id"},
    ),
    "in_a_zone": (
        """with import as (select * from {a}), final as (
            select at::date as day, extract(hour from at) as hour, a.code, count(*) as n
            from import as a where at >= '2026-01-01' group by 1, hour, code
        ) select * from final""",
        BERLIN,
    ),
    "total": ("select count(*) as n, sum(n) as s, avg(small) as a, sum(price) as p from {a}", {}),
    "total_of_two": (
        """select count(*), coalesce(sum(x), 0) as s from (
        select n as x from {a} union all select n from {b} where n < 100) as twain""",
        {},
    ),
    "of_two": (
        """select name, mood::text as mood, sum(amount) as amount, count(amount) as amounts,
        sum(a) - sum(b) as difference, avg(amount) as average from (
            select name, mood, amount, 1 as a, null::integer as b from {a}
            union all
            select name, mood, amount, null, 2 from {b} where flag is not false
        ) as twain group by 1, 2""",
        {},
    ),
    "purged": (
        """select kind, count(*) as n, sum(amount) as amount from (
            select 'live' as kind, amount from {a} union all select 'old', amount from {b}
        ) as twain group by kind""",
        {"ignore_deletes": ["lab.b"]},
    ),
    "purged_alone": (
        "select pad, letter, count(*) as n, sum(n) as s from {b} group by pad, letter",
        {"ignore_deletes": ["lab.b"]},
    ),
    "twice": (
        """select flag, count(*) as n, sum(n) as s from (
            select flag, n from {a} union all select not flag, small from {a}
            union all select null, nullif(length(name), 1200) from {b}
        ) as x group by 1""",
        {},
    ),
    "long_keys": (
        """select name, repeat('x', 3) || code as code, pad, price, raw, count(*) as n
        from {a} group by 1, 2, 3, 4, 5""",
        {},
    ),
    "tags": (
        """select tag, mood = any (moods) as has, count(*) as n, count(tag) as tags
        from {a} cross join unnest(tags) as tag group by 1, 2""",
        {},
    ),
    "left_tags": (
        """select tag.value, tag.place, doc ->> 'k' as k, count(*) as n from {a}
        left join lateral unnest(tags) with ordinality as tag (value, place) on true
        group by 1, 2, 3""",
        {},
    ),
    "of_the_row": (
        """select (select max(x) from unnest(nums) as x) as greatest, count(*) as n,
        sum((select count(distinct t) from unnest(tags) as t)) as tags from {a} group by 1""",
        {},
    ),
    "in_the_list": ("select unnest(nums) as num, count(*) as n from {a} group by 1", {}),
    "guarded": (
        """select flag, case when count(n) > 0 then sum(small) / count(n) end as a,
        case when sum(n) = 0 then 0 else sum(small) / sum(n) end as b from {a} group by 1""",
        {},
    ),
    "division": ("select 10 / small as x, count(*), sum(12 / n) as y from {a} group by 1", {}),
    "numbers_in_texts": (
        "select code::integer as code, sum(name::numeric) as s, count(*) as n from {a} group by 1",
        {},
    ),
    "ratios": (
        """select flag, sum(n)::numeric / nullif(sum(small), 0) as ratio, 100 * count(*) filter
        (where n > 0) / count(*) as percent, round(avg(amount), 2) as average,
        coalesce(sum(amount) filter (where flag), 0) as coalesced, sum(n) / 100.0 as hundredth,
        case when sum(n) > 10 then 'many' else 'few' end as word, count(*)::integer as four,
        count(1) as ones, greatest(sum(n), sum(small)) as larger, avg(n + small) as sums
        from {a} group by flag""",
        {},
    ),
    "constants": (
        """select v.name as word, a.flag, count(*) as n from {a} as a
        join (values ('a'), ('b'), (null)) as v (name) on a.name = v.name or v.name is null
        group by 1, 2""",
        {},
    ),
    "enums": (
        """select mood, moods::text as moods, count(*) filter (where mood = 'it''s') as n,
        count(*) filter (where mood in ('sad', 'ok')) as m from {a} group by 1, 2""",
        {},
    ),
    "odd_names": (
        """select "odd ""name}" as "x""y {keys}", count("odd ""name}") as "{relation}",
        sum(n) as "Sum", avg(n) as "select" from {a} group by 1""",
        {"surrogate_key": "ID x"},
    ),
    "floats": (
        """select ratio::text as ratio, r::text as r, sum(ratio::text::numeric) as s,
        sum((r * 2)::numeric(10, 2)) as t from {a} group by 1, 2""",
        {},
    ),
    "texts": (
        """select lower(name) as low, body ->> 'k' as k, md5(body::text) as m, left(label, 1) as l,
        count(*) as n from {b} where name ilike '%a%' or name is null group by 1, 2, 3, 4""",
        {},
    ),
    "grouped_without_aggregate": ("select code, flag from {a} group by 1, 2", {}),
    "cash": (
        "select cash::text as cash, bits::text as bits, count(cash) as n from {a} group by 1, 2",
        {},
    ),
    "keys_beside_totals": (
        """select small as n, n as small, sum(n) + small as s, lower(code) as code, pad,
        lower(code) || count(*) as c, length(pad) + count(*) as l, n + count(*) * small as x
        from {a} group by small, n, lower(code), pad""",
        {},
    ),
    "by_primary_key": (
        """select id, name, mood::text as mood, count(tag) as tags, count(*) + 1 as more from {a}
        left join unnest(tags) as tag on true group by id""",
        {
            "asked": """select id, name, mood, count(tag) as tags, count(*) + 1 as more from {a}
            left join unnest(tags) as tag on true group by 1, 2, 3"""
        },
    ),
    "ordered_values": (
        """select (select string_agg(t, ',' order by t desc) from unnest(tags) as t) as tags,
        (select t from unnest(tags) as t order by 1 limit 1) as first, count(*) from {a}
        group by 1, 2""",
        {},
    ),
    "guarded_names": (
        """select emptied, count(*) as good, sum(n) as bad, avg(n) as messages, count(n) as place,
        sum(small) as row_count, count(small) as result, sum(id) as stored, count(id) as totals
        from (select flag as emptied, n, small, id from {a}) as delta group by emptied""",
        {},
    ),
    "unfolded_and_not_read": (
        "select count(*) as n from (select unnest(tags) as tag, 1 as one from {a}) as x",
        {},
    ),
    "computed_and_not_read": (
        """with c as materialized (select flag, 1 / n as x, name, price from {a})
        select flag, count(*) as n from c group by 1""",
        {},
    ),
    "null_sum": (
        """select flag, sum(n) filter (where n > 1000) as s, sum(amount) filter (where flag) as a,
        sum(n) filter (where n > 1000) + 1 as s1, avg(n) filter (where n is null) as av
        from {a} group by flag""",
        {},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_model_equals_its_query_after_each_batch(lab: Lab, name: str) -> None:
    rng = Random(name)
    lab.clear()
    query, options = MODELS[name]
    model = Model(lab, name, query, rng, **options)
    writer = Writer(lab, rng)
    for _ in range(12):
        writer.write(rng.choice((1, 3, 10, 30)))
        model.step("add", lab.last_change(), each=rng.random() < 0.3)
        assert model.differences() == []


def test_rows_that_the_query_cannot_take_are_listed(lab: Lab) -> None:
    rng = Random("rejected")
    lab.clear()
    lab.execute("truncate lab.change")
    query = """select 10 / small as x, count(*) as n, sum(12 / n) as s, sum(code::integer) as c
    from {a} group by 1"""
    model = Model(lab, "rejected", query, rng)
    Writer(lab, rng, truncates=False).write(150)
    start = model.applied
    model.step("add", lab.last_change())
    assert model.differences() == []
    lab.log_changes()
    model.applied = start
    model.step("list", lab.last_change(), each=True)
    # An update that moves nothing that a reader gives is no change.
    moved = " or ".join(
        f"old_values[{n}] is distinct from new_values[{n}]" for n in model.gives[0]["places"]
    )
    bad = f"""
    select 'lab.a', action, case
        when '0' in (new_values[6], new_values[26]) then 'division by zero'
        else format('invalid input syntax for type integer: "%s"', new_values[4])
    end
    from lab.change
    where table_name = 'a' and (action = 'I' or action = 'U' and ({moved}))
    and ('0' = new_values[6] or '0' = new_values[26] or new_values[4] !~ '^[0-9]+$')
    """
    listed = "select source_table, action, reason from lab.rejected"
    assert lab.value(f"select count(*) from ({listed}) as x") > 10
    assert lab.execute(apart(listed, bad)) == []


def test_an_update_to_a_row_that_cannot_be_taken_is_no_ignored_delete(lab: Lab) -> None:
    lab.clear()
    query = "select 10 / small as x, count(*) as n from {a} group by 1"
    model = Model(lab, "purged_bad", query, Random(1), ignore_deletes=["lab.a"])
    lab.execute("insert into lab.a (id, small) values (1, 1), (2, 1)")
    model.step("add", lab.last_change(), each=True)
    lab.execute("update lab.a set small = 0 where id = 1; delete from lab.a where id = 2")
    model.step("add", lab.last_change(), each=True)
    assert lab.execute("select * from lab_models.purged_bad") == [(10, 1)]


def test_more_than_a_thousand_such_rows_stop_the_model(lab: Lab) -> None:
    lab.clear()
    model = Model(
        lab, "stops", "select 10 / small as x, count(*) as n from {a} group by 1", Random(1)
    )
    lab.execute("insert into lab.a (id, small) select n, n % 2 from generate_series(1, 2004) as n")
    with pytest.raises(psycopg2.Error, match="more than 1,000 rows"):
        model.step("add", lab.last_change())
    assert lab.execute("select * from lab_models.stops") == []


def test_a_total_that_fails_stops_the_model_and_names_the_group(lab: Lab) -> None:
    lab.clear()
    query = "select code, count(*)::integer as n, sqrt(sum(n)) as s from {a} group by 1"
    model = Model(lab, "fails", query, Random(1))
    lab.execute("insert into lab.a (id, code, n) values (1, 'good', 4), (2, 'bad', -4)")
    with pytest.raises(psycopg2.Error, match="square root of a negative number") as stopped:
        model.step("add", lab.last_change())
    assert "in the group (bad)" in str(stopped.value.diag.message_primary)


def test_a_key_too_long_for_an_index_is_a_row_that_cannot_be_taken(lab: Lab) -> None:
    lab.clear()
    model = Model(lab, "long", "select price, raw, count(*) as n from {a} group by 1, 2", Random(1))
    lab.execute(
        "insert into lab.a (id, price, raw) values (1, 1e1000, null), (2, 1, null), "
        "(3, 1, sha256('a')), (4, 2, convert_to(repeat('x', 3000), 'UTF8'))"
    )
    model.step("add", lab.last_change())
    assert lab.execute("select price, n from lab_models.long order by raw nulls first") == [
        (1, 1),
        (1, 1),
    ]


def test_what_nobody_reads_of_a_table_of_many_columns_is_not_needed(lab: Lab) -> None:
    compiled = lab.compile(
        "with i as (select * from {wide}), f as (select * from i where c0 > 1) "
        "select c1, count(*) as n, sum(c2) as s from f group by 1"
    )
    needed = [c["name"] for c in compiled["sources"][0]["columns"] if c["is_needed"]]
    assert sorted(needed) == ["c0", "c1", "c2"]
