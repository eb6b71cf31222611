"""Readers: the model while it is rebuilt, and the indexes behind them."""

from __future__ import annotations

import re
from typing import Any

from testkit.commands import ROOT
from tests.dbt.staged import MODEL, SHIPPED, Warehouse
from tests.dbt.workload import LIVE, Application, change, row

TABLE = "analytics.ft_service_stats"
INDEXES = (
    "select pg_get_indexdef(indexrelid) from pg_index "
    f"where indrelid = '{TABLE}'::regclass and not indisunique order by 1"
)


def test_a_full_refresh_is_invisible_until_it_is_done(warehouse: Warehouse) -> None:
    application = Application(31)
    warehouse.append(*(application.transaction() for _ in range(100)))
    warehouse.build(MODEL)
    old = warehouse.counts()
    warehouse.seed(old, at=warehouse.position)
    warehouse.append(*(application.transaction() for _ in range(100)))
    settled = warehouse.connect()
    settled.autocommit = False
    settled.set_session(isolation_level="REPEATABLE READ")
    assert warehouse.counts(settled) == old
    warehouse.install(MODEL, refresh=True)
    with warehouse.waiting("lock table cdc.model_watermark in exclusive mode", warehouse.apply):
        assert warehouse.counts() == old
    assert warehouse.counts() == application.counts()
    assert warehouse.counts(settled) == old
    settled.close()


def test_a_build_keeps_what_is_as_it_should_be(warehouse: Warehouse) -> None:
    """Names, grants, views upon it, indexes: also in a full refresh."""
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    warehouse.execute(
        f"grant select on {TABLE} to public; create view reader as select * from {TABLE}"
    )
    of_table = (
        f"select '{TABLE}'::regclass::oid, relacl::text, reloptions, "
        "(select array_agg(conname::text order by 1) from pg_constraint "
        "where conrelid = c.oid and contype <> 'n'), "
        "(select array_agg(relname order by 1) from pg_class as i "
        "join pg_index as x on x.indexrelid = i.oid where x.indrelid = c.oid) "
        f"from pg_class as c where oid = '{TABLE}'::regclass"
    )
    before = warehouse.execute(of_table)
    ((_, _, options, constraints, _),) = before
    assert options == ["fillfactor=80"]
    assert constraints == ["ft_service_stats_pkey", "uix_ft_service_stats_dimensions"]
    assert len(warehouse.execute(INDEXES)) == 3
    warehouse.must("run", "--full-refresh", *SHIPPED)
    assert warehouse.execute(of_table) == before
    assert warehouse.value("select sum(count) > 0 from reader")


def test_a_build_updates_counts_without_touching_an_index(warehouse: Warehouse) -> None:
    application = Application(51, truncates=False)
    # A page has room for so many new versions.
    for transactions in (50, 5):
        warehouse.append(*(application.transaction() for _ in range(transactions)))
        warehouse.build(MODEL)
    warehouse._applying.ask("select pg_stat_force_next_flush()")
    ((updated, hot),) = warehouse.execute(
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables "
        "where relname = 'ft_service_stats'"
    )
    assert updated == hot > 0


def test_the_documented_queries_read_an_index(warehouse: Warehouse) -> None:
    """In a model large enough that the planner cares: 20,000 groups of 300 services."""
    warehouse.execute(
        f"insert into {TABLE} (id, service_id, template_id, notification_type, notification_status,"
        " count, live_count, archived_count, waltally_1_count, waltally_1_live_count,"
        " waltally_1_archived_count) select gen_random_uuid(), md5('service ' || n % 300)::uuid, "
        "md5('template ' || n)::uuid, (array['email', 'sms', 'letter'])[1 + n % 3], status, n, n, "
        "0, 0, 0, 0 from generate_series(1, 5000) as n, "
        "unnest(array['created', 'sending', 'sent', 'delivered']) as status"
    )
    warehouse.execute(f"vacuum (analyze) {TABLE}")
    text = (ROOT / "docs/reading.md").read_text().partition("## The change log")[0]
    queries = re.findall(r"^### (.*?)\n.*?```sql\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert len(queries) >= 3
    for heading, query in queries:
        if "table scan" not in heading:
            plan = explained(warehouse, query)
            assert "Index Scan" in plan, f"{heading}\n{plan}"


def explained(warehouse: Warehouse, query: str) -> str:
    service = "(select md5('service 7')::uuid)"
    template = "(select md5('template 7')::uuid)"
    filled = query.replace(":service_id", service).replace(":template_id", template)
    lines: list[Any] = warehouse.execute("explain (analyze, costs off, timing off) " + filled)
    return "\n".join(line for (line,) in lines)
