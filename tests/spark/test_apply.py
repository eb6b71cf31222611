"""What spark/apply.py adds is what the database would add, and each change counts once."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession
from tests.dbt.test_roll_ups import MODELS, REGIONS_QUERY, REGIONS_TABLE, Shop
from tests.properties.declared import random_history
from tests.properties.test_deltas import found
from waltally_jobs.applying import batch
from waltally_jobs.applying.batch import ApplySettings
from waltally_jobs.applying.job import Applied, apply

from testkit import commands
from testkit.commands import LOADER
from testkit.servers import Cluster, Server
from tests.dbt.project import Project
from tests.dbt.staged import DATABASE, SLOT, Warehouse, set_environment
from tests.dbt.workload import change
from tests.spark.support import submitted
from waltally.errors import BuildFailed, LoaderError, NotSetUp, SettingError
from waltally.facts import Fact

FACTS = ("ft_orders", "ft_service_stats", "ft_kinds", "ft_hours", "ft_clock")
CASES = (FACTS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in FACTS[1:]))
KEPT = {
    "rows": "select to_jsonb(f) from {} as f order by id",
    "rejected": "select commit_lsn::text, ordinal, reason from analytics.rejected_changes "
    "where fact = '{}' order by 1, 2",
    "deletes": "select part, commit_lsn::text, dimensions, sum(measures[1]), sum(measures[2]) "
    "from cdc.archived_delete group by 1, 2, 3 order by 1, 2, 3",
    "mark": "select applied_lsn::text, rejected_lsn::text, (select jsonb_object_agg(key, value) "
    "from jsonb_each(left_out) where value <> '0') from cdc.model_watermark "
    "where model_name = '{}'",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Server({"fsync": "off"}) as server:
        yield server


@pytest.fixture(scope="module")
def warehouse(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    with pytest.MonkeyPatch.context() as patch:
        set_environment(cluster, patch)
        made = Warehouse(cluster, Project(tmp_path_factory.mktemp("project")))
        made.build(*FACTS, *MODELS)
        yield made
        made.close()


def give_to(warehouse: Warehouse, engine: str, *names: str) -> None:
    """As `dbt build` does of a fact that says so."""
    warehouse.execute(
        "update cdc.installed_model set engine = case when fact_name = any (%s) then %s "
        "else 'database' end",
        list(names),
        engine,
    )


def job(cluster: Cluster, **more: Any) -> ApplySettings:
    return ApplySettings(cluster.dsn(DATABASE), SLOT, "cdc", **more)


def run(cluster: Cluster, **more: Any) -> list[Applied | LoaderError]:
    """Run the job with --once."""
    said: list[Applied | LoaderError] = []
    apply(job(cluster, **more), said.append)
    return said


def kept(warehouse: Warehouse, fact: Fact) -> dict[str, Any]:
    """All that an apply writes."""
    return {name: warehouse.execute(query.format(fact.relation)) for name, query in KEPT.items()}


def fact_of(warehouse: Warehouse, name: str) -> Fact:
    (fact,) = (each for each in warehouse.project.facts() if each.name == name)
    return fact


@pytest.mark.parametrize("name", CASES)
def test_any_history_gives_what_the_database_would_keep(
    spark: SparkSession, cluster: Cluster, warehouse: Warehouse, name: str
) -> None:
    fact = fact_of(warehouse, name)
    for seed, (most, few) in enumerate([(7, -1), (1000, -1), (7, 5000)]):
        dice = Random(seed)
        history = random_history(dice, fact)
        cut = dice.randint(0, len(history))
        by_engine = {}
        for engine in ("spark", "database"):
            warehouse.empty()
            give_to(warehouse, engine, name)
            for part in (history[:cut], history[cut:]):
                warehouse.append(*part)
                before = found(warehouse, fact)
                warehouse.apply()
                if engine == "spark":
                    assert found(warehouse, fact) == before, "cdc.apply leaves it alone"
                    with pytest.MonkeyPatch.context() as patch:
                        patch.setattr(batch, "CHANGES_PER_TASK", 5)
                        run(cluster, max_changes=most, few_changes=few)
            by_engine[engine] = kept(warehouse, fact)
        assert by_engine["spark"] == by_engine["database"]


def order(day: int, channel: str, customer: int, amount: int) -> dict[str, Any]:
    return {
        "id": day, "day": f"2026-02-{day:02}", "channel": channel, "customer_id": customer,
        "hours": 1, "amount": amount,
    }  # fmt: skip


ORDERS = "sales.orders"
DAYS = "select sum(order_count), sum(amount) from analytics.ft_customer_days"


@pytest.fixture
def orders(warehouse: Warehouse, spark: SparkSession) -> Warehouse:
    """Three orders that are staged for a fact which Spark applies."""
    warehouse.empty()
    give_to(warehouse, "database")
    warehouse.apply()  # A first build would take them all at once.
    give_to(warehouse, "spark", "ft_customer_days")
    warehouse.append(*([change("I", ORDERS, new=order(day, "web", 1, 10))] for day in (1, 2, 3)))
    return warehouse


Meanwhile = Callable[[Callable[[], object]], None]


@pytest.fixture
def when_computed(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Do something once, between the computing of a batch and its adding."""
    compute = batch.compute

    def arrange(act: Callable[[], object]) -> None:
        def computed(*arguments: Any) -> batch.Batch:
            result = compute(*arguments)
            monkeypatch.setattr(batch, "compute", compute)
            act()
            return result

        monkeypatch.setattr(batch, "compute", computed)

    return arrange


def test_the_database_takes_a_fact_back_without_a_seed(
    orders: Warehouse, cluster: Cluster, when_computed: Meanwhile
) -> None:
    """Also while a job computes, which then adds nothing."""

    def give_back() -> None:
        give_to(orders, "database", "ft_customer_days")
        orders.apply()
        assert orders.execute(DAYS) == [(3, 30)]

    when_computed(give_back)
    with pytest.raises(SettingError, match="no fact of the slot waltally says engine='spark'"):
        run(cluster)
    assert orders.execute(DAYS) == [(3, 30)]
    give_to(orders, "spark", "ft_customer_days")
    orders.append([change("D", ORDERS, order(2, "web", 1, 10))])
    run(cluster)
    assert orders.execute(DAYS) == [(2, 20)]


def test_a_batch_counts_once_whatever_becomes_of_its_rows(
    orders: Warehouse, cluster: Cluster, when_computed: Meanwhile
) -> None:
    """Rows of a task that ran twice; of another job at the same time; and none after a crash."""

    def add_twice() -> None:
        orders.execute(
            "insert into cdc.computed_group select slot_name, model_name, batch, -1, part, "
            "commit_lsn, dimensions, sums from cdc.computed_group"
        )

    def lose_them() -> None:
        orders.execute("truncate cdc.computed_group")
        when_computed(overtake)

    def overtake() -> None:
        when_computed(add_twice)
        run(cluster)
        assert orders.execute(DAYS) == [(3, 30)]

    when_computed(lose_them)
    run(cluster)
    assert orders.execute(DAYS) == [(3, 30)]
    assert orders.execute("select count(*) from cdc.computed_group") == [(0,)]


def test_a_fact_that_fails_says_why_and_the_others_go_on(
    orders: Warehouse, cluster: Cluster
) -> None:
    give_to(orders, "spark", "ft_customer_days", "ft_service_stats")
    orders.execute(
        "alter table analytics.ft_customer_days "
        "add constraint few check (order_count < 2) not valid"
    )
    orders.append([change("I", ORDERS, new=order(1, "web", 1, 10))])
    try:
        with pytest.raises(BuildFailed, match=r"ft_customer_days failed: .*few"):
            run(cluster)
        assert orders.states()["ft_customer_days"] == "failed"
        (at,) = orders.execute(
            "select applied_lsn = (select position_lsn from cdc.slot_position) "
            "from cdc.model_watermark where model_name like '%ft_service_stats'"
        )
        assert at == (True,)
    finally:
        orders.execute("alter table analytics.ft_customer_days drop constraint few")
    orders.execute("update cdc.installed_model set retry_at = null")
    run(cluster)
    assert orders.execute(DAYS) == [(4, 40)]
    assert orders.states()["ft_customer_days"] == "follows"


def test_a_truncate_whose_share_nobody_knows_starts_from_the_baseline_once(
    warehouse: Warehouse, cluster: Cluster, spark: SparkSession
) -> None:
    """Some measures of ft_orders add up two tables."""
    warehouse.empty()
    give_to(warehouse, "spark", "ft_orders")
    row = {"Channel": "web", "placed_at": "2026-01-01", "amount": 1, "state": "paid"}
    images = [{**row, "id": number, "is_test": False} for number in range(3)]
    fact = fact_of(warehouse, "ft_orders")
    for part in fact.tables:
        place = f"{part.table.schema}.{part.table.name}"
        own = [{part.column(name): value for name, value in each.items()} for each in images]
        warehouse.append(*([change("I", place, new=each)] for each in own))
    first = fact.tables[0].table
    run(cluster)
    truncate = change("T", f"{first.schema}.{first.name}")
    warehouse.append([truncate], [change("T", "public.x")])
    run(cluster, max_changes=1)
    by_spark = found(warehouse, fact)
    give_to(warehouse, "database")
    warehouse.refresh("ft_orders")
    assert found(warehouse, fact) == by_spark != {}


def test_of_two_truncates_the_later_one_empties(orders: Warehouse, cluster: Cluster) -> None:
    """Its position has a digit more: as a text it would sort before that of the other."""
    truncate, last = [change("T", ORDERS)], [change("I", ORDERS, new=order(5, "web", 1, 10))]
    orders.append(truncate, [change("I", ORDERS, new=order(4, "web", 1, 10))], [], truncate, last)
    run(cluster)
    assert orders.execute(DAYS) == [(1, 10)]


def test_it_starts_from_a_baseline_and_waits_for_one(orders: Warehouse, cluster: Cluster) -> None:
    with pytest.raises(SettingError, match="--model names ft_orders"):
        run(cluster, facts=("ft_orders",))
    with pytest.raises(NotSetUp, match="slot nobody has no row"):
        apply(ApplySettings(cluster.dsn(DATABASE), "nobody", "cdc"), print)
    applied = [each for each in run(cluster, max_changes=2) if isinstance(each, Applied)]
    assert [each.facts for each in applied] == [("ft_customer_days",)] * 2
    assert [each.changes for each in applied] == [2, 1]
    line = r"ft_customer_days is at (0/[0-9A-F]+): 2 changes in .*, \d+ changes/s; the newest is .*"
    found = re.fullmatch(line, applied[0].line())
    assert found
    assert json.loads(json.dumps(applied[0].as_json()))["applied_lsn"] == found[1]
    assert run(cluster) == []
    fact = fact_of(orders, "ft_customer_days")
    one = ["2026-03-01", "shop", "7", "1"][: len(fact.dimensions)]
    measures = [5 if each.kind == "count" else 50 for each in fact.measures]
    orders.append([change("I", ORDERS, new=order(4, "web", 1, 10))])
    orders.seed_fact(fact.name, {fact.tables[0].name: {tuple(one): measures}}, orders.position - 1)
    remedies = orders.execute(
        "select remedy from cdc.model_state where model_name = 'ft_customer_days'"
    )
    assert remedies == [("`spark-submit spark/apply.py`",)]
    run(cluster)
    assert orders.execute(DAYS) == [(5, 50)]
    orders.append([change("I", ORDERS, new=order(5, "web", 1, 10))])
    orders.execute("delete from cdc.baseline")
    with pytest.raises(BuildFailed, match="the baseline that it was built on is gone"):
        run(cluster)
    assert orders.execute(DAYS) == [(5, 50)]


def test_roll_ups_and_current_rows_stay_with_the_database(
    warehouse: Warehouse, cluster: Cluster, spark: SparkSession
) -> None:
    warehouse.empty()
    give_to(warehouse, "spark", "ft_customer_days")
    warehouse.execute("update cdc.roll_up set is_due = true")
    shop = Shop(3)
    remedy = "select remedy from cdc.model_state where relation = 'analytics.ft_regions'"
    for _ in range(2):
        warehouse.append(*(shop.transaction() for _ in range(10)))
        warehouse.apply()
        assert warehouse.execute(remedy) == [("`spark-submit spark/apply.py`",)]
        run(cluster)
        expected = Counter(warehouse.execute(REGIONS_QUERY))
        assert Counter(warehouse.execute(REGIONS_TABLE)) == expected
    states = warehouse.states()
    assert {states[name] for name in MODELS} == {"follows"}, states


@pytest.mark.slow
def test_a_killed_job_is_completed_by_the_next_one(orders: Warehouse, cluster: Cluster) -> None:
    """Whatever it had done: its rows written, all computed, added but not said."""
    programs = f"{LOADER.parent}:{os.environ['PATH']}"
    given = {**os.environ, **cluster.environment(DATABASE), "LOADER_SLOT": SLOT, "PATH": programs}
    points = {"written": 0, "computed": 0, "merged": 1, "merged:2": 3, "": 3}
    for kill_at, count in points.items():
        command = submitted("apply", "--once", "--max-changes", "1", "--in-driver", "0")
        done = commands.run(command, {**given, "WALTALLY_KILL_AT": kill_at}, timeout=300)
        assert (done.returncode == 0) != bool(kill_at), done.stderr
        assert orders.execute(DAYS) == [(count or None, count * 10 or None)], kill_at


def test_it_follows_without_a_spark_job_and_ends_when_it_is_told_to(
    orders: Warehouse, cluster: Cluster
) -> None:
    programs = f"{LOADER.parent}:{os.environ['PATH']}"
    given = {**os.environ, **cluster.environment(DATABASE), "LOADER_SLOT": SLOT, "PATH": programs}
    job = subprocess.Popen(
        submitted("apply"), env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert job.stdout is not None
        said = next(line for line in job.stdout if " is at " in line)
        assert re.match(r"ft_customer_days is at .*: 3 changes in ", said), said
        orders.append([change("I", ORDERS, new=order(4, "web", 1, 10))])
        commands.wait_until(lambda: orders.execute(DAYS) == [(4, 40)], "it is applied")
        started = psutil.Process(job.pid)
        (driver,) = (
            each
            for each in [started, *started.children(recursive=True)]
            if "python" in each.name() and any("apply.py" in word for word in each.cmdline())
        )
        driver.terminate()
        rest = job.stdout.read()
        job.stdout.close()
    finally:
        job.kill()
        job.wait()
    assert "ended as it was told to; what was applied is intact" in rest, rest
