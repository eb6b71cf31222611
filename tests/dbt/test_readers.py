"""Readers see the old totals or the new ones, never a table that is missing or half built."""

from __future__ import annotations

from tests.dbt.staged import FACT, Warehouse
from tests.dbt.workload import Source


def test_a_full_refresh_is_invisible_until_it_is_done(warehouse: Warehouse) -> None:
    source = Source(31)
    warehouse.append(*(source.transaction() for _ in range(100)))
    warehouse.build(*FACT)
    old = warehouse.counts()
    warehouse.seed(old, at=warehouse.position)
    warehouse.append(*(source.transaction() for _ in range(100)))
    settled = warehouse.connect()
    settled.autocommit = False
    settled.set_session(isolation_level="REPEATABLE READ")
    assert warehouse.counts(settled) == old

    def still_old() -> None:
        assert warehouse.counts() == old

    with warehouse.interrupting("lock table cdc.model_watermark in exclusive mode", still_old):
        warehouse.build("--full-refresh", *FACT)

    assert warehouse.counts() == source.counts()
    assert warehouse.counts(settled) == old
    settled.close()


def test_names_grants_and_views_survive_a_full_refresh(warehouse: Warehouse) -> None:
    source = Source(32)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    warehouse.execute(
        "create view reader as select * from analytics.ft_service_stats; "
        "grant select on analytics.ft_service_stats to public"
    )
    state = (
        "select 'analytics.ft_service_stats'::regclass::oid, relacl::text, reloptions, "
        "(select array_agg(conname order by 1) from pg_constraint where conrelid = c.oid), "
        "(select array_agg(relname order by 1) from pg_class as i "
        "join pg_index as x on x.indexrelid = i.oid where x.indrelid = c.oid) "
        "from pg_class as c where oid = 'analytics.ft_service_stats'::regclass"
    )
    before = warehouse.execute(state)
    warehouse.build("--full-refresh", *FACT)
    assert warehouse.execute(state) == before
    assert before[0][2] == ["fillfactor=80"]
    # From PostgreSQL 18 on NOT NULL is a constraint too.
    named = [name for name in before[0][3] if not name.endswith("_not_null")]
    assert named == ["ft_service_stats_pkey", "uix_ft_service_stats_dimensions"]
    assert warehouse.execute("select count(*) > 0 from reader") == [(True,)]
