"""Readers: the model while it is rebuilt, and the indexes behind them."""

from __future__ import annotations

import re

from testkit.commands import ROOT
from tests.dbt.warehouse import MODEL, TABLE, Warehouse


def test_a_full_refresh_is_invisible_until_it_is_done(built: Warehouse) -> None:
    built.apply()
    read = f"select * from {TABLE} order by id"
    old = built.target.execute(read)
    with built.holding("set transaction isolation level repeatable read") as settled:
        assert settled.ask(read) == old
        built.write()
        built.put(MODEL, is_refresh=True)
        with built.waiting("lock table cdc.model_watermark in exclusive mode", built.applied):
            assert built.target.execute(read) == old
        built.must_be_exact()
        assert settled.ask(read) == old
    assert built.target.execute(read) != old


def test_a_build_keeps_what_is_as_it_should_be(warehouse: Warehouse) -> None:
    """Names, grants, views upon it, indexes: also in a full refresh."""
    warehouse.target.execute("drop schema analytics cascade")
    warehouse.do("dbt", "run")
    warehouse.target.execute(
        f"grant select on {TABLE} to public; create view reader as select * from {TABLE}"
    )
    of_table = (
        f"select '{TABLE}'::regclass::oid, relacl::text, reloptions, "
        "(select array_agg(conname::text order by 1) from pg_constraint "
        "where conrelid = c.oid and contype <> 'n'), "
        "(select array_agg(pg_get_indexdef(indexrelid) order by 1) from pg_index "
        f"where indrelid = c.oid) from pg_class as c where oid = '{TABLE}'::regclass"
    )
    before = warehouse.target.execute(of_table)
    ((_, _, options, constraints, indexes),) = before
    assert options == ["fillfactor=80"]
    assert constraints == ["ft_service_stats_pkey", "uix_ft_service_stats_dimensions"]
    assert len(indexes) == 5
    warehouse.source.insert(1)
    warehouse.stage()
    warehouse.do("dbt", "run", "--full-refresh")
    assert warehouse.target.execute(of_table) == before
    assert warehouse.target.value("select sum(count) from reader") == 1


def test_an_apply_updates_counts_without_touching_an_index(warehouse: Warehouse) -> None:
    warehouse.do("dbt", "run")
    for _ in range(3):
        warehouse.source.insert(1)
        warehouse.stage()
        warehouse.apply()
    warehouse.target.execute("select pg_stat_force_next_flush()")
    ((updated, hot),) = warehouse.target.execute(
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables "
        "where relname = 'ft_service_stats'"
    )
    assert updated == hot > 0


def test_the_documented_queries_read_an_index(warehouse: Warehouse) -> None:
    """In a model large enough that the planner cares: 20,000 groups of 300 services."""
    warehouse.target.execute("drop schema analytics cascade")
    warehouse.do("dbt", "run")
    warehouse.target.execute(
        f"insert into {TABLE} (id, service_id, template_id, notification_type, notification_status,"
        " count, live_count, archived_count, waltally_1_count, waltally_1_live_count,"
        " waltally_1_archived_count) select gen_random_uuid(), md5('service ' || n % 300)::uuid, "
        "md5('template ' || n)::uuid, (array['email', 'sms', 'letter'])[1 + n % 3], status, n, n, "
        "0, 0, 0, 0 from generate_series(1, 5000) as n, "
        "unnest(array['created', 'sending', 'sent', 'delivered']) as status"
    )
    warehouse.target.execute(f"vacuum (analyze) {TABLE}")
    text = (ROOT / "docs/reading.md").read_text().partition("## The change log")[0]
    queries = re.findall(r"^### (.*?)\n.*?```sql\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert len(queries) >= 3
    for heading, query in queries:
        asked = re.sub(r":(service|template)_id", r"(select md5('\1 7')::uuid)", query)
        lines = warehouse.target.execute("explain (analyze, costs off, timing off) " + asked)
        plan = "\n".join(line for (line,) in lines)
        assert "table scan" in heading or "Index Scan" in plan, f"{heading}\n{plan}"
