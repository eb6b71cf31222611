"""What spark/apply.py says and refuses; test_moved_changes.py shows that it adds up right."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from waltally_jobs.applying import batch
from waltally_jobs.applying.batch import ApplySettings
from waltally_jobs.applying.job import Applied, apply
from waltally_jobs.common.command import Stop

from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.servers import Cluster, connect
from tests.spark.kept import Kept
from tests.spark.support import meanwhile
from waltally.errors import BuildFailed, LoaderError, NotSetUp, SettingError

CHANNELS = "select channel, count(*) as order_count, sum(amount) as amount from {orders} group by 1"
TOTAL = "select sum(order_count), sum(amount) from analytics.channels"
STATES = "select status, count(*) as n from {orders} group by 1"
SPARK = {"engine": "spark"}


@pytest.fixture
def orders(cluster: Cluster, tmp_path: Path) -> Iterator[Kept]:
    """Three orders that are staged for a model which Spark applies."""
    with empty_database(cluster) as database:
        made = Kept(database, tmp_path)
        made.keep({"channels": (CHANNELS, SPARK)})
        made.must_run("seed")
        insert(made, 1, 2, 3)
        yield made


def insert(orders: Kept, *days: int) -> None:
    """Stage an order of each day, in a transaction of its own."""
    for day in days:
        orders.source.execute("insert into orders (channel, amount) values ('web', %s)", day * 10)
    orders.must("run", "--once")


def give_to(orders: Kept, engine: str, *names: str) -> None:
    """As `dbt build` does of a model that says so."""
    orders.target.execute(
        "update cdc.installed_model set engine = %s where model_name = any (%s)",
        engine,
        list(names or ("channels",)),
    )


def run(orders: Kept, **more: Any) -> list[Applied | LoaderError]:
    """Run the job with --once."""
    said: list[Applied | LoaderError] = []
    slot = more.pop("slot", orders.slot)
    apply(ApplySettings(orders.dsns[1], slot, "cdc", **more), said.append)
    return said


def state(orders: Kept) -> tuple[Any, ...]:
    query = "select state, remedy from cdc.model_state where model_name = 'channels'"
    return orders.target.execute(query)[0]


def test_the_database_takes_a_model_back_without_a_seed(
    orders: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a job computes, which then adds nothing."""

    def take_back(_: batch.Batch) -> None:
        give_to(orders, "database")
        orders.apply()
        assert orders.target.execute(TOTAL) == [(3, 60)]

    meanwhile(monkeypatch, "applying.batch.compute", after=take_back)
    with pytest.raises(SettingError, match=r"no model of the slot .* says engine='spark'"):
        run(orders)
    assert orders.target.execute(TOTAL) == [(3, 60)]
    give_to(orders, "spark")
    orders.source.execute("delete from orders where amount = 20")
    orders.must("run", "--once")
    run(orders)
    assert orders.target.execute(TOTAL) == [(2, 40)]


def test_a_model_that_fails_says_why_and_the_others_go_on(orders: Kept) -> None:
    orders.keep({"channels": (CHANNELS, SPARK), "states": (STATES, SPARK)})
    orders.must_run("seed")
    orders.source.execute("update orders set status = 'paid'")
    insert(orders, 4)
    orders.target.execute(
        "alter table analytics.channels add constraint few check (order_count < 4) not valid"
    )
    with pytest.raises(BuildFailed, match=r"channels failed: .*few"):
        run(orders)
    assert state(orders)[0] == "failed"
    assert orders.target.value("select sum(n) from analytics.states") == 4
    orders.target.execute("alter table analytics.channels drop constraint few")
    orders.target.execute("update cdc.installed_model set retry_at = null")
    run(orders)
    assert orders.target.execute(TOTAL) == [(4, 100)]
    assert state(orders)[0] == "follows"


def test_it_starts_from_a_baseline_and_waits_for_one(orders: Kept) -> None:
    with pytest.raises(SettingError, match="no model named ft_orders of"):
        run(orders, models=("ft_orders",))
    with pytest.raises(NotSetUp, match="slot nobody has no row"):
        run(orders, slot="nobody")
    assert state(orders)[1] == "`spark-submit spark/apply.py`"
    applied = [each for each in run(orders, max_changes=2) if isinstance(each, Applied)]
    assert {each.models for each in applied} == {("channels",)}
    assert sum(each.changes for each in applied) == 3
    line = r"channels is at (0/[0-9A-F]+): \d changes? in .*, \d+ changes/s"
    assert re.fullmatch(line, applied[0].line()), applied[0].line()
    assert run(orders) == []
    orders.must_run("seed")
    insert(orders, 4)
    run(orders)
    assert orders.target.execute(TOTAL) == [(4, 100)]
    insert(orders, 5)
    orders.target.execute("delete from cdc.baseline")
    with pytest.raises(BuildFailed, match="the baseline that it was built on is gone"):
        run(orders)
    assert orders.target.execute(TOTAL) == [(4, 100)]


def test_the_former_query_and_a_copy_go_on(orders: Kept) -> None:
    """A job that took them for the registered model would read the same changes for ever."""
    run(orders)
    orders.install("channels", "dev")
    run(orders)
    changed = CHANNELS.replace("group by", "where amount > 10 group by")
    orders.keep({"channels": (changed, SPARK)}, is_refresh=False)
    insert(orders, 4)
    run(orders)
    for schema in ("analytics", "dev"):
        assert orders.target.execute(TOTAL.replace("analytics", schema)) == [(4, 100)]
    assert orders.target.value("select count(*) from cdc.computed_change") == 0
    orders.must_run("seed")
    run(orders)
    assert orders.target.execute(TOTAL) == [(3, 90)]


def test_a_change_without_its_old_row_is_said(orders: Kept) -> None:
    run(orders)
    orders.source.execute("alter table orders replica identity nothing")
    orders.source.execute("update orders set channel = 'shop'")
    orders.must("run", "--once")
    orders.source.execute("alter table orders replica identity full")
    with pytest.raises(NotSetUp, match="came without the old row's values"):
        run(orders)
    assert state(orders)[0] == "waits"
    orders.must_run("seed")
    run(orders)
    assert orders.target.execute(TOTAL) == [(3, 60)]
    assert state(orders)[0] == "follows"


def test_it_follows_and_ends_when_it_is_told_to(orders: Kept) -> None:
    job = orders.spawn(sys.executable, "spark/apply.py")
    try:
        wait_until(lambda: orders.target.execute(TOTAL) == [(3, 60)], "it is applied", 120)
        insert(orders, 4)
        wait_until(lambda: orders.target.execute(TOTAL) == [(4, 100)], "it is applied")
        job.terminate()
        out, err = job.communicate(timeout=60)
    finally:
        job.kill()
    assert re.search(r"channels is at .*: 3 changes in ", out), out
    assert "ended as it was told to; what was applied is intact" in err


def test_it_ends_while_somebody_else_fills_a_model_over_its_models(
    orders: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = "select sum(order_count) as n from {channels}"
    orders.keep({"channels": (CHANNELS, SPARK), "over": (over, {})}, is_refresh=False)
    stop = Stop()
    settings = ApplySettings(orders.dsns[1], orders.slot, "cdc", interval=0.01)
    meanwhile(monkeypatch, "applying.batch.fill_due", stop.set)
    with closing(connect(orders.dsns[1])) as filling, ThreadPoolExecutor(1) as pool:
        filling.ask("select pg_advisory_lock(cdc.lock_key('model', 'analytics.over'))")
        try:
            job = pool.submit(apply, settings, lambda event: None, stop)
            wait_until(job.done, "it ends")
        finally:
            filling.ask("select pg_advisory_unlock_all()")
    run(orders)
    assert orders.target.execute("select n from analytics.over") == [(3,)]


def test_a_model_that_is_applied_all_the_time_is_audited(orders: Kept) -> None:
    """An audit lets nobody add meanwhile, and brings the model to where it compares."""
    run(orders)
    with (
        closing(connect(orders.dsns[0])) as session,
        orders.follow(),
        ThreadPoolExecutor(2) as pool,
    ):
        stop = Stop()
        settings = ApplySettings(orders.dsns[1], orders.slot, "cdc", interval=0.01)
        applied: list[Applied | LoaderError] = []

        def write() -> None:
            while not stop.wait(0.01):
                session.ask("insert into orders (channel, amount) values ('web', 1)")

        try:
            others = [pool.submit(apply, settings, applied.append, stop), pool.submit(write)]
            wait_until(lambda: len(applied) > 3 or any(each.done() for each in others))
            found = orders.run("audit")
        finally:
            stop.set()
        for each in others:
            each.result()
    assert found[0] == 0, found
