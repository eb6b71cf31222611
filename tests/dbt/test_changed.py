"""A model that is added or changed waits for its own baseline, and what it held stays."""

from __future__ import annotations

from typing import Any

from tests.dbt.project import messages
from tests.dbt.staged import MODEL, START, Warehouse
from tests.dbt.workload import LIVE, SERVICES, change, row
from waltally import lsn

CHANGING = "ft_changing"
TABLE = f"analytics.{CHANGING}"
NEW = change("I", LIVE, new=row())
TEAM = change("I", LIVE, new=row(key_type="team"))
VALUES = "select service_id::text, count from analytics.ft_changing"


def variables(changed: str) -> tuple[str, ...]:
    """For dbt: let the model declare something else."""
    return ("--vars", f"changed: {changed}") if changed else ()


def run(warehouse: Warehouse, changed: str = "", *words: str) -> str:
    """Have dbt install the model, and return what it says."""
    return messages(warehouse.dbt("run", "--select", CHANGING, *variables(changed), *words))


def register(warehouse: Warehouse, changed: str = "", followed: int = START) -> None:
    """Register the model as it is declared, as `loader setup` does."""
    warehouse.register(changed=changed, followed=followed)


def contents(warehouse: Warehouse) -> list[Any]:
    return warehouse.execute("select * from analytics.ft_changing order by 1")


def test_a_model_waits_for_tables_that_the_log_lacks(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    warehouse.execute("delete from cdc.logged_table")
    assert "the change log holds its tables not yet" in warehouse.waits(CHANGING)
    later = warehouse.position
    register(warehouse, followed=later)
    since = f"the change log holds its tables only from {lsn.show(later)} on"
    # Only a baseline at or after that position has nothing missing behind it.
    assert since in warehouse.waits(CHANGING)
    warehouse.append([NEW])
    assert since in warehouse.waits(CHANGING)
    warehouse.seed_model(CHANGING, {LIVE: {(SERVICES[0],): [1]}}, at=later)
    warehouse.build(CHANGING)
    assert warehouse.execute(VALUES) == [(SERVICES[0], 2)]


def test_a_changed_query_waits_and_then_replaces_what_was_there(warehouse: Warehouse) -> None:
    """It has more than ten columns."""
    warehouse.append([NEW])
    warehouse.seed_model(CHANGING, {LIVE: {(SERVICES[0],): [7]}}, at=START)
    warehouse.build(CHANGING)
    warehouse.execute(
        "create view reader as select service_id, count from analytics.ft_changing; "
        "grant select on analytics.ft_changing to public"
    )
    for words in ((), ("--full-refresh",)):
        assert "loader setup" in str(run(warehouse, "columns", *words))
    register(warehouse, "columns")
    for words in ((), ("--full-refresh",)):
        run(warehouse, "columns", *words)
        assert "its query has changed: until a seed has counted it" in str(warehouse.state(TABLE))
        assert warehouse.execute(VALUES) == [(SERVICES[0], 8)]

    group = (SERVICES[0], "team", *[f"team{letter}" for letter in "abcdefghij"])
    warehouse.seed_model(CHANGING, {LIVE: {group: [6]}}, at=START)
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
    register(warehouse, "columns")
    warehouse.seed_model(CHANGING, {})
    run(warehouse, "columns")
    warehouse.execute("create view reader as select key_type from analytics.ft_changing")
    register(warehouse)
    warehouse.seed_model(CHANGING, {}, at=START)
    said = run(warehouse)
    assert "a view or a key still needs an old one" in said
    assert "Drop what needs the column" in said.split("HINT")[1]
    warehouse.execute("drop view reader")
    run(warehouse)
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]


def test_a_model_that_spark_applies_is_left_alone_and_taken_back(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    said = run(warehouse, "spark")
    assert "it was not built yet. Try: `spark-submit spark/apply.py`" in said
    run(warehouse)
    before = contents(warehouse)
    run(warehouse, "spark")
    warehouse.append([NEW])
    warehouse.apply()
    assert contents(warehouse) == before
    assert warehouse.states()[CHANGING] == "follows"
    run(warehouse)
    assert warehouse.execute(VALUES) == [(SERVICES[0], 2)]


def test_another_model_is_installed_while_one_is_rebuilt(warehouse: Warehouse) -> None:
    """Its tables come first in what is read of the log: then values stand in other places."""
    warehouse.append([NEW])
    warehouse.install(CHANGING)
    with warehouse.waiting(warehouse.stop(CHANGING), warehouse.apply):
        warehouse.install(MODEL)
    warehouse.apply()
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]


def test_another_model_is_installed_between_plan_and_read(warehouse: Warehouse) -> None:
    """Then a table has another number than in the plan: no change seems to touch the model."""
    warehouse.build(CHANGING)
    warehouse.append([NEW])
    warehouse.execute(
        "create or replace function cdc.see_partitions() returns void language sql "
        "as 'select pg_advisory_xact_lock(1)'"
    )
    with warehouse.waiting("select pg_advisory_lock(1)", warehouse.apply):
        warehouse.install(MODEL)
    warehouse.apply()
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]


def test_dbt_tries_again_what_another_session_has_changed_meanwhile(warehouse: Warehouse) -> None:
    warehouse.build(CHANGING)
    warehouse.append([NEW])
    warehouse.execute(
        "alter function cdc.apply_front rename to apply_the_front; "
        "create function cdc.apply_front(text, cdc.model_plan[], pg_lsn, pg_lsn, "
        "out front text[], out front_lsn pg_lsn, out is_more boolean) language sql "
        "as 'select pg_advisory_xact_lock(1); select * from cdc.apply_the_front($1, $2, $3, $4)'"
    )
    with warehouse.waiting(
        "select pg_advisory_lock(1)", warehouse.must, "run", "--select", CHANGING
    ):
        warehouse.execute("update cdc.installed_model set engine = engine")
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]


def test_a_build_with_tests_passes_while_a_model_waits(warehouse: Warehouse) -> None:
    warehouse.append([NEW])
    warehouse.execute("delete from cdc.baseline where declared_name = %s", MODEL)
    warehouse.must("build", "--select", MODEL, CHANGING)
    assert warehouse.states()[MODEL] == "waits"
    assert warehouse.counts() == {}
    assert warehouse.execute(VALUES) == [(SERVICES[0], 1)]
