"""Whoever calls cdc.apply, and whatever holds a model: nothing is applied twice."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any, cast

import psycopg2
import pytest

from loader.applying.applier import Applier
from loader.capture.events import RunState
from loader.staging.change_log import ChangeLog
from testkit.commands import wait_until
from tests.dbt.staged import MODEL, SLOT, STAGING, STEP, Warehouse
from tests.dbt.workload import LIVE, Application, change, row
from waltally import locks, lsn

MODELS = (MODEL, "ft_key_types", "ft_services")
MOVED = "select split_part(model_name, '.', 2), applied_lsn::text from cdc.model_watermark"
WRONG = "alter table analytics.ft_key_types add constraint wrong check (count < 0) not valid"
RIGHT = "alter table analytics.ft_key_types drop constraint wrong"


@pytest.fixture
def application() -> Application:
    return Application(41, truncates=False)


@pytest.fixture
def built(warehouse: Warehouse, application: Application) -> Warehouse:
    """Three models of the same tables that follow, and changes that are not applied yet."""
    warehouse.append(*(application.transaction() for _ in range(20)))
    warehouse.build(*MODELS)
    warehouse.append(*(application.transaction() for _ in range(20)))
    return warehouse


def must_be_exact(warehouse: Warehouse, application: Application) -> None:
    """Apply; each of the models has the counts of the rows."""
    warehouse.apply()
    assert warehouse.counts() == application.counts()
    for model, column in (("ft_key_types", "count"), ("ft_services", "live_count")):
        counted = f"select coalesce(sum({column}), 0)::int from analytics.{model}"
        assert warehouse.value(counted) == len(application.live), model


def test_a_model_behind_is_not_applied_by_two_callers(
    built: Warehouse, application: Application
) -> None:
    """The second one has made its plan when the first one commits."""
    with built.late(MODEL, "ft_key_types"):
        built.apply()
    with ThreadPoolExecutor() as pool, built.holding(f"select cdc.apply('{SLOT}')") as first:
        second = pool.submit(built.apply_apart, "behind")
        built.wait_for_waiting(1, second)
        first.commit()
        assert {model.state for model in second.result()} == {"follows"}
    must_be_exact(built, application)


def test_two_callers_apply_nothing_twice(built: Warehouse, application: Application) -> None:
    with ThreadPoolExecutor() as pool:
        with built.holding("lock table cdc.model_watermark in exclusive mode"):
            # One has applied and waits for the table, the other one for the first.
            callers = [pool.submit(built.apply_apart) for _ in range(2)]
            built.wait_for_waiting(2)
        for caller in callers:
            caller.result()
    must_be_exact(built, application)


def test_a_loader_builds_a_model_that_was_seeded_where_nothing_is_staged(built: Warehouse) -> None:
    """The others come to its baseline without a change."""
    waiting = "analytics.ft_key_types"
    applier = Applier(built.settings, RunState())
    applier.start()
    try:
        wait_until(lambda: len(set(dict(built.execute(MOVED)).values())) == 1)
        built.seed_model("ft_key_types", {}, at=built.position + STEP)
        wait_until(lambda: "waits" in applier._reported.get(waiting, ()))
        wait_until(lambda: not applier._is_due.is_set())
        with closing(ChangeLog(built.settings)) as log:
            assert log.look()[1], "the loader stores the position at once"
            built.execute("update cdc.slot_position set position_lsn = position_lsn + %s", 2 * STEP)
            assert not log.look()[1]
        wait_until(lambda: built.states()["ft_key_types"] == "follows", seconds=20)
    finally:
        applier.close()


def test_a_loader_rests_while_what_is_behind_is_locked(built: Warehouse) -> None:
    with built.late(MODEL):
        built.apply()
    applier = Applier(built.settings, RunState())
    model = f"analytics.{MODEL}"
    with built.holding(f"select pg_advisory_xact_lock(cdc.lock_key('model', '{model}'))"):
        assert applier._apply_behind()
        assert not applier._apply_behind()


def test_a_full_refresh_holds_up_no_other_model(built: Warehouse, application: Application) -> None:
    built.ask_refresh("ft_key_types")
    with built.waiting(built.stop("ft_key_types"), built.apply_apart, "behind"):
        front = built.apply_apart("front")
        assert built.counts() == application.counts()
    assert {model.name for model in front} == {MODEL, "ft_services"}
    must_be_exact(built, application)


def test_a_rebuild_that_fails_is_committed_before_the_front_is_waited_for(
    built: Warehouse, application: Application
) -> None:
    """Its error is a locked row, and who holds the front may want to write down one too."""
    with built.late(MODEL):
        built.apply()
    built.execute(WRONG)
    built.ask_refresh("ft_key_types")
    with built.holding(f"select pg_advisory_xact_lock(cdc.lock_key('slot', '{SLOT}'))"):
        states = {model.name: model for model in built.apply_apart("behind")}
    assert states["ft_key_types"].state == "failed"
    assert states[MODEL].is_behind
    built.execute(RIGHT)
    built.try_again()
    must_be_exact(built, application)


def test_a_model_that_another_caller_applies_is_passed_over(built: Warehouse) -> None:
    """At once: whoever waits for a model holds up the others."""
    models = f"cdc.plan_models('{SLOT}') as planned where planned.step is not null"
    plans = f"array(select planned from {models})"
    with (
        built.holding(f"select cdc.begin_models({plans})"),
        pytest.raises(psycopg2.Error, match="another session builds it"),
    ):
        built.execute(f"select cdc.begin_models({plans})")


def test_a_lock_on_one_model_holds_up_no_other(built: Warehouse, application: Application) -> None:
    """The lock of a table is not even waited for."""
    for lock in (
        "select from analytics.ft_key_types for update",
        "lock table analytics.ft_key_types in access exclusive mode",
    ):
        built.append(*(application.transaction() for _ in range(20)))
        with ThreadPoolExecutor() as pool, built.holding(lock):
            states = {model.name: model for model in pool.submit(built.apply).result(60)}
            assert built.counts() == application.counts()
            locked = states.pop("ft_key_types")
            assert locked.state == "failed"
            assert locked.reason and "it could not be locked" in locked.reason
            assert locked.applied_lsn == lsn.parse(dict(built.execute(MOVED))["ft_key_types"])
        built.try_again()
        must_be_exact(built, application)
        assert built.states()["ft_key_types"] == "follows"
        built.execute(f"alter routine {built.routine('ft_key_types')} set lock_timeout = '1h'")


def test_dbt_ends_when_its_model_has_everything(built: Warehouse, application: Application) -> None:
    """It calls as often as there are batches, and again for what somebody has locked."""

    def runs() -> None:
        built.must("run", "--select", "ft_key_types")
        assert dict(built.execute(MOVED))["ft_key_types"] == lsn.show(built.position)

    built.batch_of(5)
    runs()
    built.append(*(application.transaction() for _ in range(20)))
    with built.waiting("select from analytics.ft_key_types for update", runs):
        wait_until(lambda: built.states()["ft_key_types"] == "failed")
    must_be_exact(built, application)


def test_a_model_that_fails_is_tried_again_ever_more_seldom(
    built: Warehouse, application: Application
) -> None:
    """The others go on, and it joins them when its cause is gone."""
    built.execute(WRONG)
    failed = "select error, retry_at - failed_at from cdc.installed_model where error is not null"
    pauses: list[timedelta] = []
    for _ in range(3):
        built.append(*(application.transaction() for _ in range(20)))
        built.try_again()
        built.apply()
        assert built.counts() == application.counts()
        ((error, pause),) = built.execute(failed)
        assert 'violates check constraint "wrong"' in error
        pauses.append(pause)
    assert pauses == sorted(set(pauses))
    built.apply()
    assert built.execute(failed) == [(error, pause)], "within its pause it is not tried"
    assert built.states()["ft_key_types"] == "failed"
    built.execute(RIGHT)
    built.try_again()
    must_be_exact(built, application)
    assert built.states()["ft_key_types"] == "follows"


KEY_TYPES = "select sum(count)::int from analytics.ft_key_types"


def test_another_model_is_installed_while_one_is_rebuilt(warehouse: Warehouse) -> None:
    """Its tables come first in what is read of the log: then values stand in other places."""
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.install("ft_key_types")
    with warehouse.waiting(warehouse.stop("ft_key_types"), warehouse.apply):
        warehouse.install(MODEL)
    warehouse.apply()
    assert warehouse.value(KEY_TYPES) == 1


def test_another_model_is_installed_between_plan_and_read(warehouse: Warehouse) -> None:
    """Then a table has another number than in the plan: no change seems to touch the model."""
    warehouse.build("ft_key_types")
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute(
        "create or replace function cdc.see_partitions() returns void language sql "
        "as 'select pg_advisory_xact_lock(1)'"
    )
    with warehouse.waiting("select pg_advisory_lock(1)", warehouse.apply):
        warehouse.install(MODEL)
    warehouse.apply()
    assert warehouse.value(KEY_TYPES) == 1


def test_dbt_tries_again_what_another_session_has_changed_meanwhile(warehouse: Warehouse) -> None:
    warehouse.build("ft_key_types")
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute(
        "alter function cdc.apply_front rename to apply_the_front; "
        "create function cdc.apply_front(text, cdc.model_plan[], pg_lsn, pg_lsn, "
        "out front text[], out front_lsn pg_lsn, out is_more boolean) language sql "
        "as 'select pg_advisory_xact_lock(1); select * from cdc.apply_the_front($1, $2, $3, $4)'"
    )
    with warehouse.waiting(
        "select pg_advisory_lock(1)", warehouse.must, "run", "--select", "ft_key_types"
    ):
        warehouse.execute("update cdc.installed_model set engine = engine")
    assert warehouse.value(KEY_TYPES) == 1


def test_an_install_that_is_killed_is_repeated_exactly(
    built: Warehouse, application: Application
) -> None:
    before = built.counts()
    with built.holding("lock table cdc.installed_model in exclusive mode"):
        build = built.start_dbt("run", "--select", MODEL, "--full-refresh")
        built.wait_for_waiting(1)
        build.kill()
        build.join()
    # An apply that was sent may still end at the server, as a whole.
    assert built.counts() in (before, application.counts())

    def is_exact() -> bool:
        # The killed session holds the model until its statement ends.
        built.apply()
        return built.counts() == application.counts()

    wait_until(is_exact, "it is exact")


@pytest.mark.slow
def test_two_first_builds_at_once(warehouse: Warehouse) -> None:
    """Both find neither schema nor table; one makes them, the other must not apply again."""
    fresh = Warehouse(warehouse.cluster, warehouse.project, STAGING)
    fresh.append([change("I", LIVE, new=row())])
    with fresh.holding("create schema analytics"):
        run = ("run", "--select", "rejected_changes", MODEL)
        both = [fresh.start_dbt(*run) for _ in range(2)]
        fresh.wait_for_waiting(2)
    for each in both:
        each.join(120)
        assert each.exitcode == 0
    fresh.apply()
    assert list(fresh.counts().values()) == [(1, 0)]
    fresh.close()


def test_a_function_that_is_lost_stops_its_models(
    built: Warehouse, application: Application
) -> None:
    reader = built.value("select cdc.reader_name(%s)", SLOT)
    built.execute(f"alter function {reader} rename to lost")
    built.apply()
    assert [built.states()[model] for model in MODELS] == ["failed"] * 3
    ((said, remedy),) = built.execute("select distinct error, remedy from cdc.installed_model")
    assert "is not there" in said
    assert remedy == "`dbt build`"
    # As dbt does: the reader is made again.
    built.install(*MODELS)
    must_be_exact(built, application)


def test_a_lock_has_one_number_in_python_in_the_database_and_in_dbt(warehouse: Warehouse) -> None:
    for names in (["a"], ["a", "b"], ['Ä "b"\'', "c d"]):
        stored = warehouse.value("select cdc.lock_key('seeding', variadic %s::text[])", names)
        assert stored == locks.key("seeding", *names)
        macro = f"select {{{{ waltally.lock_key('dbt relation', {json.dumps(names[0])}) }}}}"
        (made,) = cast("Any", warehouse.project.invoke("compile", "--inline", macro).result).results
        assert warehouse.value(made.node.compiled_code) == locks.key("dbt relation", names[0])
