"""Whoever calls cdc.apply, and whatever holds a model: nothing is applied twice."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.dbt.staged import SLOT, START, STEP, Warehouse
from tests.dbt.workload import LIVE, Source, change, row
from waltally import lsn

FACTS = ("ft_service_stats", "ft_key_types", "ft_services")
MODELS = ("--select", *FACTS, "rejected_changes")
MOVED = "select split_part(model_name, '.', 2), applied_lsn::text from cdc.model_watermark"


@pytest.fixture
def source() -> Source:
    return Source(41, truncates=False)


@pytest.fixture
def built(warehouse: Warehouse, source: Source) -> Warehouse:
    """Three facts of the same tables that follow."""
    warehouse.append(*(source.transaction() for _ in range(20)))
    warehouse.build(*MODELS)
    return warehouse


@contextmanager
def late(warehouse: Warehouse, *facts: str) -> Iterator[None]:
    """Hold these facts back while the others are applied."""
    hold = "update cdc.installed_model set error = %s, retry_at = %s where fact_name = any (%s)"
    warehouse.execute(hold, "held", "infinity", list(facts))
    yield
    warehouse.execute(hold, None, None, list(facts))


def is_exact(warehouse: Warehouse, source: Source) -> None:
    """Each of the facts has the counts of the rows."""
    assert warehouse.counts() == source.counts()
    live = [each for each in source.live.values() if each["service_id"]]
    for fact, column in (("ft_key_types", "count"), ("ft_services", "live_count")):
        counted = f"select coalesce(sum({column}), 0)::int from analytics.{fact}"
        assert warehouse.execute(counted) == [(len(live),)], fact


def test_a_model_behind_is_not_applied_by_two_callers(built: Warehouse, source: Source) -> None:
    """The second one has made its plan when the first one commits."""
    built.append(*(source.transaction() for _ in range(20)))
    with late(built, "ft_service_stats", "ft_key_types"):
        built.apply()
    first = built.connect()
    first.autocommit = False
    first.cursor().execute("select cdc.apply(%s)", (SLOT,))
    with ThreadPoolExecutor() as pool:
        second = pool.submit(built.apply_apart, "behind")
        built.wait_for_waiting(1)
        first.commit()
        second.result()
    first.close()
    built.apply()
    is_exact(built, source)


def test_two_callers_apply_nothing_twice(built: Warehouse, source: Source) -> None:
    built.append(*(source.transaction() for _ in range(20)))
    with ThreadPoolExecutor() as pool:
        with built.holding("lock table cdc.model_watermark in exclusive mode"):
            # One has applied and waits for the table, the other one for the first.
            calls = [pool.submit(built.apply_apart) for _ in range(2)]
            built.wait_for_waiting(2)
        for call in calls:
            call.result()
    is_exact(built, source)


def test_no_model_goes_beyond_the_log(warehouse: Warehouse) -> None:
    """A baseline may be ahead of the log; what is staged after it counts for the other models."""
    first, then = (change("I", LIVE, new=row(id=number)) for number in "12")
    group = (row()["service_id"], row()["key_type"])
    warehouse.append([first])
    warehouse.seed_fact("ft_key_types", {"live": {group: [2]}}, at=warehouse.position + STEP)
    for fact in ("ft_service_stats", "ft_services"):
        warehouse.seed_fact(fact, {}, at=START)
    warehouse.build("--select", "ft_key_types", "rejected_changes")
    warehouse.build(*MODELS)
    warehouse.append([then])
    warehouse.build(*MODELS)
    assert list(warehouse.counts().values()) == [(2, 0)]
    assert warehouse.execute("select count from analytics.ft_key_types") == [(2,)]
    assert warehouse.execute("select live_count from analytics.ft_services") == [(2,)]
    states = warehouse.states()
    assert [states[fact] for fact in FACTS] == ["follows"] * 3


def test_a_full_refresh_holds_up_no_other_model(built: Warehouse, source: Source) -> None:
    built.append(*(source.transaction() for _ in range(20)))
    with ThreadPoolExecutor() as pool:
        with built.stopping("ft_key_types"):
            refresh = pool.submit(built.install, "--full-refresh", "--select", "ft_key_types")
            built.wait_for_waiting(1)
            front = built.apply_apart("front")
            assert built.counts() == source.counts()
        refresh.result()
    assert {model.name for model in front} == {
        "analytics.ft_service_stats",
        "analytics.ft_services",
    }
    is_exact(built, source)


def test_a_rebuild_that_fails_is_committed_before_the_front_is_waited_for(
    built: Warehouse, source: Source
) -> None:
    """Its error is a locked row, and who holds the front may want to write down one too."""
    built.append(*(source.transaction() for _ in range(20)))
    with late(built, "ft_service_stats"):
        built.apply()
    wrong = "alter table analytics.ft_key_types add constraint wrong check (count < 0) not valid"
    built.execute(
        wrong + "; update cdc.installed_model set is_refresh_asked = true "
        "where fact_name = 'ft_key_types'"
    )
    front = f"select pg_advisory_xact_lock(cdc.lock_key('slot', '{SLOT}'))"
    with built.holding(front):
        states = {model.name: model for model in built.apply_apart("behind")}
    assert states["analytics.ft_key_types"].state == "failed"
    assert states["analytics.ft_service_stats"].is_behind
    built.execute("alter table analytics.ft_key_types drop constraint wrong")
    built.execute("update cdc.installed_model set retry_at = now() where error is not null")
    built.apply()
    is_exact(built, source)


@pytest.mark.parametrize(
    "lock",
    [
        "lock table analytics.ft_key_types in access exclusive mode",
        "select from analytics.ft_key_types for update",
    ],
    ids=["table", "row"],
)
def test_a_lock_on_one_fact_holds_up_no_other(built: Warehouse, source: Source, lock: str) -> None:
    built.append(*(source.transaction() for _ in range(20)))
    with built.holding(lock):
        states = {model.name: model for model in built.apply()}
        assert built.counts() == source.counts()
        locked = states.pop("analytics.ft_key_types")
        assert locked.state == "failed"
        assert locked.reason and "it could not be locked" in locked.reason
        assert locked.applied_lsn == lsn.parse(dict(built.execute(MOVED))["ft_key_types"])
    built.execute("update cdc.installed_model set retry_at = now()")
    built.apply()
    is_exact(built, source)
    assert built.states()["ft_key_types"] == "follows"


def test_a_locked_model_that_is_tried_again_holds_up_no_front(
    built: Warehouse, source: Source
) -> None:
    built.append(*(source.transaction() for _ in range(20)))
    front = f"pg_try_advisory_xact_lock(cdc.lock_key('slot', '{SLOT}'))"
    with built.holding("select from analytics.ft_key_types for update"):
        built.apply()
        built.execute("update cdc.installed_model set retry_at = now() where error is not null")
        with ThreadPoolExecutor() as pool:
            behind = pool.submit(built.apply_apart, "behind")
            built.wait_for_waiting(1)
            assert built.execute(f"select {front}") == [(True,)]
            behind.result()
    built.execute("update cdc.installed_model set retry_at = now() where error is not null")
    built.apply()
    is_exact(built, source)


def test_a_model_that_fails_is_tried_again_ever_more_seldom(
    built: Warehouse, source: Source
) -> None:
    """The others go on, and it joins them when its cause is gone."""
    built.execute(
        "alter table analytics.ft_key_types add constraint wrong check (count < 0) not valid"
    )
    pauses = []
    for _ in range(3):
        built.append(*(source.transaction() for _ in range(20)))
        built.execute("update cdc.installed_model set retry_at = now() where error is not null")
        built.apply()
        assert built.counts() == source.counts()
        ((error, pause),) = built.execute(
            "select error, retry_at - failed_at from cdc.installed_model where error is not null"
        )
        assert 'violates check constraint "wrong"' in error
        pauses.append(pause)
    assert pauses == sorted(set(pauses))
    # A pause that is not over keeps it from being tried.
    before = built.execute("select failed_at from cdc.installed_model where error is not null")
    built.apply()
    assert before == built.execute(
        "select failed_at from cdc.installed_model where error is not null"
    )
    assert built.states()["ft_key_types"] == "failed"
    built.execute("alter table analytics.ft_key_types drop constraint wrong")
    built.execute("update cdc.installed_model set retry_at = now() where error is not null")
    built.apply()
    is_exact(built, source)
    assert built.execute(
        "select error, remedy, failures, retry_at from cdc.installed_model "
        "where fact_name = 'ft_key_types'"
    ) == [(None, None, 0, None)]


def test_a_batch_calls_the_models_alone_that_it_touches(built: Warehouse) -> None:
    """The others move without a call."""
    called = (
        "select sum(calls)::int from pg_stat_user_functions where funcname like '%%\\_\\_apply'"
    )
    built.watch("set track_functions = 'pl'")
    for table, models in ((LIVE, 3), ("public.notification_history", 2), ("public.x", 0)):
        before = built.execute(called)[0][0] or 0
        built.append([change("I", table, new=row())])
        built.apply_once("front")
        built.watch("select pg_stat_force_next_flush()")
        assert (built.execute(called)[0][0] or 0) - before == models, table
    assert len(set(dict(built.execute(MOVED)).values())) == 1


def test_a_function_that_is_lost_stops_its_project_alone(built: Warehouse, source: Source) -> None:
    built.append(*(source.transaction() for _ in range(20)))
    ((reader,),) = built.execute("select distinct reader from cdc.installed_model")
    built.execute(f"drop function {reader}")
    built.apply()
    assert [built.states()[fact] for fact in FACTS] == ["failed"] * 3
    ((said, remedy),) = built.execute("select distinct error, remedy from cdc.installed_model")
    assert "is not there" in said
    assert remedy == "`dbt build`"
    built.install(*MODELS)
    is_exact(built, source)
