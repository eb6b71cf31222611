"""A fact that is added or changed waits for its own baseline, and what it held stays until then."""

from __future__ import annotations

from typing import Any

from tests.dbt.project import messages
from tests.dbt.staged import FACT, START, Warehouse
from tests.dbt.workload import LIVE, SERVICES, change, row
from waltally import lsn

MODEL = "ft_changing"
NEW = change("I", LIVE, new=row())
TEAM = change("I", LIVE, new=row(key_type="team"))
VALUES = "select service_id::text, count from analytics.ft_changing"


def variables(changed: str) -> tuple[str, ...]:
    """For dbt: let the model declare something else."""
    return ("--vars", f"changed: {changed}") if changed else ()


def run(warehouse: Warehouse, changed: str = "", *words: str) -> str:
    """Have dbt install the model, and return what it says."""
    return messages(warehouse.dbt("run", "--select", MODEL, *variables(changed), *words))


def register(warehouse: Warehouse, changed: str = "", followed: int = START) -> None:
    """Register the model as it is declared, as `loader setup` does."""
    declared = warehouse.project.facts(*variables(changed)[1:])
    warehouse.register(*(fact for fact in declared if fact.name == MODEL), followed=followed)


def contents(warehouse: Warehouse) -> list[Any]:
    return warehouse.execute("select * from analytics.ft_changing order by id")


def test_a_fact_waits_for_tables_that_the_log_lacks(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    warehouse.execute("delete from cdc.logged_table")
    assert "does not hold all of its tables yet" in warehouse.waits(MODEL)
    later = warehouse.position
    register(warehouse, followed=later)
    assert f"holds its tables only from {lsn.show(later)} on" in warehouse.waits(MODEL)
    warehouse.append([NEW])
    # Only a baseline at or after that position has nothing missing behind it.
    warehouse.seed_fact(MODEL, {}, at=START)
    assert f"holds its tables only from {lsn.show(later)} on" in warehouse.waits(MODEL)
    warehouse.seed_fact(MODEL, {"live": {(SERVICES[0],): [1]}}, at=later)
    warehouse.build(MODEL)
    assert warehouse.execute(VALUES) == [(SERVICES[0], 2)]


def test_changed_dimensions_wait_and_then_replace_what_was_there(warehouse: Warehouse) -> None:
    """There are more than ten of them."""
    warehouse.append([NEW])
    warehouse.seed_fact(MODEL, {"live": {(SERVICES[0],): [7]}}, at=START)
    warehouse.build(MODEL)
    warehouse.execute(
        "create view reader as select service_id, count from analytics.ft_changing; "
        "grant select on analytics.ft_changing to public"
    )
    before = contents(warehouse)
    assert "Try: `loader setup`" in run(warehouse, "dimensions")
    register(warehouse, "dimensions")
    for words in ((), ("--full-refresh",)):
        said = run(warehouse, "dimensions", *words)
        assert "its baseline was counted by another declaration" in said
        assert "spark/seed.py --model ft_changing" in said
        assert contents(warehouse) == before
    # The project as it was is not the registered one any more.
    assert "Try: `loader setup`" in run(warehouse)

    run(warehouse, "dimensions")
    group = (SERVICES[0], *["team"] * 11)
    warehouse.seed_fact(MODEL, {"live": {group: [6]}}, at=START)
    with warehouse.waiting("lock table cdc.model_watermark in exclusive mode", warehouse.apply):
        assert warehouse.value("select count(*) from pg_class where relname = 'reader'") == 1
    assert warehouse.execute(
        "select service_id::text, key_type, count from analytics.ft_changing order by 2"
    ) == [(SERVICES[0], "normal", 1), (SERVICES[0], "team", 6)]
    assert warehouse.value(
        "select relacl::text like '%=r/%' from pg_class "
        "where oid = 'analytics.ft_changing'::regclass"
    )
    key = "select pg_get_constraintdef(oid) from pg_constraint where conname = %s"
    assert warehouse.value(key, "uix_ft_changing_dimensions") == (
        "UNIQUE NULLS NOT DISTINCT (service_id, key_type, a, b, c, d, e, f, g, h, i, j)"
    )
    warehouse.append([TEAM])
    warehouse.apply()
    assert warehouse.value("select sum(count) from reader") == 8


def test_a_view_that_needs_a_lost_column_is_named(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    register(warehouse, "dimensions")
    run(warehouse, "dimensions")
    warehouse.execute("create view reader as select key_type from analytics.ft_changing")
    register(warehouse)
    said = run(warehouse)
    assert "a view or a key still needs an old one" in said
    assert "Drop what needs the column" in said.split("HINT")[1]
    warehouse.execute("drop view reader")
    run(warehouse)
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]


def test_a_changed_derived_column_waits_for_nothing(warehouse: Warehouse) -> None:
    warehouse.seed_fact(MODEL, {"live": {(SERVICES[0],): [7]}}, at=START)
    warehouse.append([TEAM])
    warehouse.build(MODEL)
    before = contents(warehouse)
    run(warehouse, "derived")
    assert warehouse.execute("select count, doubled from analytics.ft_changing") == [(8, 16)]
    run(warehouse)
    assert contents(warehouse) == before


def test_a_fact_that_spark_applies_is_left_alone_and_taken_back(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    said = run(warehouse, "spark")
    assert "it was not built yet. Try: `spark-submit spark/apply.py`" in said
    run(warehouse)
    before = contents(warehouse)
    run(warehouse, "spark")
    warehouse.append([NEW])
    warehouse.apply()
    assert contents(warehouse) == before
    assert warehouse.states()[MODEL] == "follows"
    run(warehouse)
    assert warehouse.execute(VALUES) == [(SERVICES[0], 2)]


def test_a_build_with_tests_passes_while_a_fact_waits(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    warehouse.seed_fact(MODEL, {}, at=START)
    warehouse.must("build", "--select", FACT, MODEL)
    assert warehouse.states()[FACT] == "waits"
    assert warehouse.counts() == {}
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]
