"""A fact that is added or changed waits for its own baseline, and what it held stays until then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dbt.project import messages
from tests.dbt.staged import START, Warehouse
from tests.dbt.workload import LIVE, SERVICES, change, row
from waltally import lsn

NAMES = ("--select", "ft_changing", "rejected_changes")
BY_TYPE = ("--vars", "changed: dimensions")
BY_WHERE = ("--vars", "changed: where")
DOUBLED = ("--vars", "changed: derived")
MANY = ("--vars", "changed: many")
BY_SPARK = ("--vars", "changed: spark")


def register(warehouse: Warehouse, *words: str, followed: int = START) -> None:
    """Register ft_changing as these variables declare it, as `loader setup` does."""
    found = warehouse.project.facts(*words[1:])
    warehouse.register(*(fact for fact in found if fact.name == "ft_changing"), followed=followed)


def contents(warehouse: Warehouse) -> list[Any]:
    return warehouse.execute("select * from analytics.ft_changing order by id")


def test_an_added_fact_waits_while_the_others_go_on(warehouse: Warehouse) -> None:
    warehouse.seed({})
    warehouse.append([change("I", LIVE, new=row())])
    done = warehouse.dbt("run", "--select", "ft_service_stats", *NAMES[1:])
    assert "ft_changing" in messages(done) or done.success
    assert done.success, messages(done)
    assert list(warehouse.counts().values()) == [(1, 0)]
    assert contents(warehouse) == []
    assert "other facts of the slot have a baseline and it has none" in warehouse.waits(*NAMES)
    warehouse.seed_fact("ft_changing", {"live": {(SERVICES[0],): [7]}}, at=START)
    warehouse.build(*NAMES)
    assert [line[1:] for line in contents(warehouse)] == [(SERVICES[0], 8)]


def test_the_first_facts_of_a_slot_start_where_the_log_does(warehouse: Warehouse) -> None:
    """Without any baseline nothing is known from before, and nobody waits for it."""
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*NAMES)
    assert [line[2] for line in contents(warehouse)] == [1]


def test_a_fact_of_more_than_ten_dimensions_goes_on(warehouse: Warehouse) -> None:
    register(warehouse, *MANY)
    for count in (1, 2):
        warehouse.append([change("I", LIVE, new=row())])
        warehouse.build(*NAMES, *MANY)
        assert warehouse.execute("select count from analytics.ft_changing") == [(count,)]


def test_a_fact_waits_for_tables_that_the_log_lacks(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("delete from cdc.logged_table")
    assert "does not hold all of its tables yet" in warehouse.waits(*NAMES)
    later = warehouse.position
    register(warehouse, followed=later)
    assert f"holds its tables only from {lsn.show(later)} on" in warehouse.waits(*NAMES)
    warehouse.append([change("I", LIVE, new=row())])
    # Only a baseline at or after that position has nothing missing behind it.
    warehouse.seed_fact("ft_changing", {}, at=START)
    assert f"the change log holds its tables only from {lsn.show(later)} on" in warehouse.waits(
        *NAMES
    )
    warehouse.seed_fact("ft_changing", {"live": {(SERVICES[0],): [1]}}, at=later)
    warehouse.build(*NAMES)
    assert [line[2] for line in contents(warehouse)] == [2]


def test_a_changed_fact_keeps_its_rows_until_its_baseline_is_there(warehouse: Warehouse) -> None:
    warehouse.seed_fact("ft_changing", {"live": {(SERVICES[0],): [7]}}, at=START)
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    warehouse.build(*NAMES)
    warehouse.execute(
        "create view reader as select service_id, count from analytics.ft_changing; "
        "grant select on analytics.ft_changing to public"
    )
    before = contents(warehouse)
    assert "run `loader setup`" in messages(warehouse.dbt("run", *NAMES, *BY_TYPE))

    register(warehouse, *BY_TYPE)
    for words in ((), ("--full-refresh",)):
        said = warehouse.waits(*NAMES, *BY_TYPE, *words)
        assert "its baseline was counted by another declaration" in said
        assert "spark/seed.py --fact ft_changing" in said
        assert contents(warehouse) == before
    # The project as it was is not the registered one any more.
    assert "run `loader setup`" in messages(warehouse.dbt("run", *NAMES))

    warehouse.seed_fact("ft_changing", {"live": {(SERVICES[0], "team"): [6]}}, at=START)
    settled = warehouse.connect()
    settled.autocommit = False
    settled.set_session(isolation_level="REPEATABLE READ")
    with settled.cursor() as cursor:
        cursor.execute("select count from reader")
        assert cursor.fetchall() == [(8,)]

        def still_there() -> None:
            assert warehouse.execute("select count(*) from pg_class where relname = 'reader'")

        settled.rollback()
        with warehouse.interrupting(
            "lock table cdc.model_watermark in exclusive mode", still_there
        ):
            warehouse.build(*NAMES, *BY_TYPE)
    settled.close()
    assert warehouse.execute(
        "select service_id::text, key_type, count from analytics.ft_changing order by 2"
    ) == [(SERVICES[0], "normal", 1), (SERVICES[0], "team", 6)]
    assert warehouse.execute("select sum(count) from reader") == [(7,)]
    assert warehouse.execute(
        "select relacl::text like '%%=r/%%' from pg_class "
        "where oid = 'analytics.ft_changing'::regclass"
    ) == [(True,)]
    assert warehouse.execute(
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where conname = 'uix_ft_changing_dimensions'"
    ) == [("UNIQUE NULLS NOT DISTINCT (service_id, key_type)",)]
    warehouse.append([change("I", LIVE, new=row(key_type="team"))])
    warehouse.build(*NAMES, *BY_TYPE)
    assert warehouse.execute("select sum(count) from reader") == [(8,)]


def test_a_changed_condition_waits_and_takes_effect_for_every_row(warehouse: Warehouse) -> None:
    warehouse.seed_fact("ft_changing", {"live": {(SERVICES[0],): [7]}}, at=START)
    warehouse.append([change("I", LIVE, new=row(key_type="team"))])
    warehouse.build(*NAMES)
    register(warehouse, *BY_WHERE)
    warehouse.waits(*NAMES, *BY_WHERE)
    assert [line[2] for line in contents(warehouse)] == [8]
    warehouse.seed_fact("ft_changing", {"live": {(SERVICES[0],): [5]}}, at=START)
    warehouse.build(*NAMES, *BY_WHERE)
    assert [line[2] for line in contents(warehouse)] == [5]


def test_a_derived_column_comes_and_goes_without_a_seed(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*NAMES)
    before = contents(warehouse)
    warehouse.build(*NAMES, *DOUBLED)
    assert warehouse.execute("select count, doubled from analytics.ft_changing") == [(1, 2)]
    warehouse.build(*NAMES)
    assert contents(warehouse) == before


def test_a_fact_that_spark_applies_is_left_alone_and_taken_back(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*NAMES)
    before = contents(warehouse)
    done = warehouse.dbt("run", *NAMES, *BY_SPARK)
    assert done.success, messages(done)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.apply()
    assert contents(warehouse) == before
    assert warehouse.states()["ft_changing"] == "follows"
    done = warehouse.dbt("run", *NAMES)
    assert done.success, messages(done)
    assert [line[2] for line in contents(warehouse)] == [2]


def test_a_new_fact_that_spark_applies_names_its_job(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    done = warehouse.dbt("run", *NAMES, *BY_SPARK)
    assert "it was not built yet; run `spark-submit spark/apply.py`" in messages(done)
    # The project is parsed first, and that must succeed.
    with pytest.raises(
        AssertionError, match="engine is \"abacus\"; it takes 'database' or 'spark'"
    ):
        warehouse.dbt("run", *NAMES, "--vars", "changed: abacus")


def test_a_view_that_needs_a_lost_column_is_named(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(key_type="normal"))])
    register(warehouse, *BY_TYPE)
    warehouse.build(*NAMES, *BY_TYPE)
    warehouse.execute("create view reader as select key_type from analytics.ft_changing")
    register(warehouse)
    said = messages(warehouse.dbt("run", *NAMES))
    assert "a view or a key still needs an old one" in said
    assert "Drop what needs the column" in said.split("HINT")[1]
    warehouse.execute("drop view reader")
    warehouse.build(*NAMES)
    assert [line[1:] for line in contents(warehouse)] == [(SERVICES[0], 1)]


def test_a_build_with_tests_passes_while_a_fact_waits(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.seed_fact("ft_changing", {}, at=START)
    done = warehouse.dbt("build", "--select", "ft_service_stats", *NAMES[1:])
    assert done.success, messages(done)
    assert "ft_service_stats" in warehouse.waits("--select", "ft_service_stats")
    assert warehouse.counts() == {}
    assert [line[2] for line in contents(warehouse)] == [1]


def test_a_column_of_somebody_else_stays(warehouse: Warehouse) -> None:
    """Only a change of what the model declares takes columns away."""
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*NAMES)
    warehouse.execute("alter table analytics.ft_changing add column note text default 'mine'")
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*NAMES)
    warehouse.build("--full-refresh", *NAMES)
    assert warehouse.execute("select count, note from analytics.ft_changing") == [(2, "mine")]
