"""The dashboard's view and the indexes behind it: made once, kept, changed in place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.dbt.staged import FACT, SHIPPED, Warehouse
from tests.dbt.workload import LIVE, Source, change, row

ROOT = Path(__file__).parents[2]
VIEW = "analytics.service_totals"

STATE = (
    f"select c.oid, c.xmin, c.relacl::text, pg_get_viewdef(c.oid) from pg_class as c "
    f"where c.oid = '{VIEW}'::regclass"
)
INDEXES = (
    "select pg_get_indexdef(indexrelid) from pg_index "
    "where indrelid = 'analytics.ft_service_stats'::regclass and not indisunique order by 1"
)


def built(warehouse: Warehouse, seed: int = 51) -> Source:
    source = Source(seed, truncates=False)
    warehouse.append(*(source.transaction() for _ in range(100)))
    warehouse.build(*SHIPPED)
    return source


def test_the_totals_are_those_of_the_rows(warehouse: Warehouse) -> None:
    statuses = ["created", "delivered", "sent", "failed", "technical-failure", "cancelled"]
    warehouse.append(
        [change("I", LIVE, new=row(notification_status=status)) for status in statuses],
        [change("I", LIVE, new=row(notification_type="sms", notification_status="delivered"))],
    )
    warehouse.build(*SHIPPED)
    assert warehouse.execute(
        "select notification_type, count, requested, delivered, failed "
        f"from {VIEW} order by notification_type"
    ) == [("email", 6, 5, 2, 2), ("sms", 1, 1, 1, 0)]


def test_a_build_does_not_touch_a_view_that_is_as_it_should_be(warehouse: Warehouse) -> None:
    built(warehouse)
    warehouse.execute(
        f"grant select on {VIEW} to public; create view reader as select * from {VIEW}"
    )
    before = warehouse.execute(STATE)
    reader = warehouse.connect()
    reader.autocommit = False
    reader.cursor().execute(f"select * from {VIEW}")
    # Its lock would stop whatever replaces the view.
    warehouse.build(*SHIPPED)
    warehouse.build("--full-refresh", *SHIPPED)
    reader.close()
    assert warehouse.execute(STATE) == before


def test_a_view_that_is_another_is_replaced_in_place(warehouse: Warehouse) -> None:
    built(warehouse)
    warehouse.execute(
        f"grant select on {VIEW} to public; create view reader as select * from {VIEW}"
    )
    ((oid, _, grants, definition),) = warehouse.execute(STATE)
    warehouse.execute(
        f"create or replace view {VIEW} as select service_id, notification_type, "
        "0::bigint as count, 0::bigint as requested, 0::bigint as delivered, 0::bigint as failed "
        "from analytics.ft_service_stats"
    )
    warehouse.install(*SHIPPED)
    ((oid_now, _, grants_now, definition_now),) = warehouse.execute(STATE)
    assert (oid_now, grants_now, definition_now) == (oid, grants, definition)
    assert warehouse.execute("select sum(count) > 0 from reader") == [(True,)]


def test_the_loader_s_builds_leave_the_view_alone(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build("--select", "config.materialized:waltally_fact", "rejected_changes", *SHIPPED)
    assert warehouse.execute(f"select to_regclass('{VIEW}')") == [(None,)]


def test_a_fact_that_lacks_an_index_gets_it_once(warehouse: Warehouse) -> None:
    built(warehouse)
    indexes = warehouse.execute(INDEXES)
    assert len(indexes) == 3
    warehouse.execute("drop index analytics.ft_service_stats_service_id_template_id_idx")
    assert len(warehouse.execute(INDEXES)) == 2
    for _ in "twice":
        warehouse.build(*FACT)
        assert warehouse.execute(INDEXES) == indexes


def test_a_build_updates_counts_without_touching_an_index(warehouse: Warehouse) -> None:
    source = built(warehouse)
    updates = (
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables "
        "where relname = 'ft_service_stats'"
    )
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*SHIPPED)
    warehouse.watch("select pg_stat_force_next_flush()")
    ((updated, hot),) = warehouse.execute(updates)
    assert updated == hot > 0


def queries() -> dict[str, str]:
    """The documented queries by their headings, with an id of the workload for each parameter."""
    text = (ROOT / "docs/reading.md").read_text()
    found = re.findall(r"^### (.*?)\n.*?```sql\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.fixture
def filled(warehouse: Warehouse) -> Warehouse:
    """A fact large enough that the planner cares: 60,000 groups of 300 services."""
    built(warehouse)
    warehouse.execute(
        """
        truncate analytics.ft_service_stats;
        insert into analytics.ft_service_stats
        select
            gen_random_uuid(),
            md5('service ' || n % 300)::uuid,
            md5('template ' || n)::uuid,
            (array['email', 'sms', 'letter'])[1 + n % 3],
            status,
            n,
            n,
            0
        from generate_series(1, 7500) as n,
            unnest(array[
                'created', 'sending', 'sent', 'delivered',
                'failed', 'cancelled', 'temporary-failure', 'permanent-failure'
            ]) as status
        """
    )
    warehouse.execute("vacuum (analyze) analytics.ft_service_stats")
    return warehouse


def test_the_documented_queries_read_an_index(filled: Warehouse) -> None:
    found = queries()
    assert len(found) >= 3
    for heading, query in found.items():
        plan = explained(filled, query)
        if "table scan" in heading:
            continue
        assert "Index Scan" in plan, f"{heading}\n{plan}"


def explained(warehouse: Warehouse, query: str) -> str:
    service = "(select md5('service 7')::uuid)"
    template = "(select md5('template 7')::uuid)"
    filled = query.replace(":service_id", service).replace(":template_id", template)
    lines: list[Any] = warehouse.execute("explain (analyze, costs off, timing off) " + filled)
    return "\n".join(line for (line,) in lines)
