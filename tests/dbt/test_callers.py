"""Whoever calls cdc.apply, and whatever holds a model: nothing is applied twice."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg2
import pytest

from loader.applying.applier import Applier
from loader.capture.events import RunState
from loader.staging.change_log import ChangeLog
from testkit.commands import wait_until
from testkit.servers import connect
from tests.dbt.warehouse import MODEL, MODELS, OTHER, POSITIONS, TABLE, THIRD, Warehouse
from waltally import locks, lsn

WRONG = f"alter table analytics.{OTHER} add constraint wrong check (row_count < 0) not valid"
RIGHT = f"alter table analytics.{OTHER} drop constraint wrong"


def test_a_model_that_catches_up_is_not_applied_by_two_callers(built: Warehouse) -> None:
    """The second one has made its plan when the first one commits."""
    with built.late(MODEL):
        built.apply()
    lock = f"select cdc.apply('{built.slot}')"
    with built.waiting(lock, built.applied, "catching up") as (first, second):
        first.commit()
        assert {model.state for model in second.result().values()} == {"follows"}
    built.must_be_exact()


def test_two_callers_apply_nothing_twice(built: Warehouse) -> None:
    with ThreadPoolExecutor() as pool:
        with built.holding("lock table cdc.model_watermark in exclusive mode"):
            # One has applied and waits for the table, the other one for the first.
            callers = [pool.submit(built.applied) for _ in range(2)]
            built.wait_for_waiting(2)
        for caller in callers:
            caller.result()
    built.must_be_exact()


def test_a_loader_builds_a_model_that_was_seeded_where_nothing_is_staged(built: Warehouse) -> None:
    """The others come to its baseline without a change."""
    applier = Applier(built.loader_settings, RunState())
    applier.start()
    try:
        wait_until(lambda: len(set(dict(built.target.execute(POSITIONS)).values())) == 1)
        built.target.execute(
            "update cdc.baseline set (baseline_id, snapshot_lsn) = (gen_random_uuid(),"
            " position_lsn + 48) from cdc.slot_position where model_name = %s",
            OTHER,
        )
        wait_until(lambda: "waits" in applier._reported.get(f"analytics.{OTHER}", ()))
        wait_until(lambda: not applier._is_due.is_set())
        with closing(ChangeLog(built.loader_settings)) as log:
            assert log.look()[1], "the loader stores the position at once"
            built.target.execute("update cdc.slot_position set position_lsn = position_lsn + 96")
            assert not log.look()[1]
        wait_until(lambda: built.states()[OTHER] == "follows", seconds=20)
    finally:
        applier.close()


def test_a_loader_rests_while_what_catches_up_is_locked(built: Warehouse) -> None:
    with built.late(MODEL):
        built.apply()
    applier = Applier(built.loader_settings, RunState())
    with built.holding(f"select pg_advisory_xact_lock(cdc.lock_key('model', '{TABLE}'))"):
        assert applier._apply_catching_up()
        assert not applier._apply_catching_up()


def test_a_full_refresh_holds_up_no_other_model(built: Warehouse) -> None:
    built.ask_refresh(OTHER)
    with built.waiting(built.stop(OTHER), built.applied, "catching up"):
        assert set(built.applied("caught up")) == {MODEL, THIRD}
        assert built.model() == built.recount()
    built.must_be_exact()


def test_a_rebuild_that_fails_is_committed_before_others_are_waited_for(built: Warehouse) -> None:
    """Its error is a locked row, and who holds the others may want to write down one too."""
    with built.late(MODEL):
        built.apply()
    built.target.execute(WRONG)
    built.ask_refresh(OTHER)
    with built.holding(f"select pg_advisory_xact_lock(cdc.lock_key('slot', '{built.slot}'))"):
        states = built.applied("catching up")
    assert states[OTHER].state == "failed"
    assert states[MODEL].is_behind
    built.target.execute(RIGHT)
    built.try_again()
    built.must_be_exact()


def test_a_model_that_another_caller_applies_is_passed_over(built: Warehouse) -> None:
    """At once: whoever waits for a model holds up the others."""
    models = f"cdc.plan_models('{built.slot}') as planned where planned.step is not null"
    begin = f"select cdc.begin_models(array(select planned from {models}))"
    with built.holding(begin):
        with pytest.raises(psycopg2.Error, match="another session builds it"):
            built.target.execute(begin)
        assert "failed" not in {model.state for model in built.applied().values()}
    built.must_be_exact()


def test_a_lock_on_one_model_holds_up_no_other(built: Warehouse) -> None:
    """The lock of a table is not even waited for."""
    for lock in ("select from {} for update", "lock table {} in access exclusive mode"):
        built.write()
        held = built.holding(lock.format(f"analytics.{OTHER}"))
        with ThreadPoolExecutor() as pool, held:
            locked = pool.submit(built.applied).result(60)[OTHER]
            assert built.model() == built.recount()
            assert locked.state == "failed"
            assert locked.reason and "it could not be locked" in locked.reason
            position = dict(built.target.execute(POSITIONS))[OTHER]
            assert locked.applied_lsn == lsn.parse(position)
        built.try_again()
        built.must_be_exact()
        assert built.states()[OTHER] == "follows"
        built.be_patient(OTHER)


def test_dbt_ends_when_its_model_has_everything(built: Warehouse) -> None:
    """It calls as often as there are batches, and again for what somebody has locked or changed."""

    def runs() -> None:
        built.do("dbt", "run", "--select", MODEL)
        assert built.model() == built.recount()

    built.batch_of(5)
    runs()
    built.write()
    with built.waiting(f"select from {TABLE} for update", runs):
        wait_until(lambda: built.states()[MODEL] == "failed")
    built.write()
    built.target.execute(
        "alter function cdc.apply_caught_up rename to apply_them; "
        "create function cdc.apply_caught_up(text, cdc.model_plan[], pg_lsn, pg_lsn, "
        "out caught_up text[], out caught_up_lsn pg_lsn, out is_more boolean) language sql "
        "as 'select pg_advisory_xact_lock(1); select * from cdc.apply_them($1, $2, $3, $4)'"
    )
    with built.waiting("select pg_advisory_lock(1)", runs):
        built.target.execute("update cdc.installed_model set engine = engine")
    built.must_be_exact()


def test_a_model_that_fails_is_tried_again_ever_more_seldom(built: Warehouse) -> None:
    """The others go on, and it joins them when its cause is gone."""
    built.target.execute(WRONG)
    failed = "select error, retry_at - failed_at from cdc.installed_model where error is not null"
    pauses: list[timedelta] = []
    for _ in range(3):
        built.source.insert(1)
        built.stage()
        built.try_again()
        built.apply()
        assert built.model() == built.recount()
        ((error, pause),) = built.target.execute(failed)
        assert 'violates check constraint "wrong"' in error
        pauses.append(pause)
    assert pauses == sorted(set(pauses))
    built.apply()
    assert built.target.execute(failed) == [(error, pause)], "within its pause it is not tried"
    assert built.states()[OTHER] == "failed"
    built.target.execute(RIGHT)
    built.try_again()
    built.must_be_exact()
    assert built.states()[OTHER] == "follows"


def test_another_model_is_installed_while_one_is_rebuilt(warehouse: Warehouse) -> None:
    """Its tables come first in what is read of the log: then values stand in other places."""
    warehouse.write()
    warehouse.put(OTHER)
    with warehouse.waiting(warehouse.stop(OTHER), warehouse.applied):
        warehouse.put(MODEL, THIRD)
    warehouse.must_be_exact()


def test_another_model_is_installed_between_plan_and_read(warehouse: Warehouse) -> None:
    """Then a table has another number than in the plan: no change seems to touch the model."""
    warehouse.put(OTHER)
    warehouse.apply()
    warehouse.source.insert(1)
    warehouse.stage()
    warehouse.target.execute(
        "create or replace function cdc.see_partitions() returns void language sql "
        "as 'select pg_advisory_xact_lock(1)'"
    )
    with warehouse.waiting("select pg_advisory_lock(1)", warehouse.applied):
        warehouse.put(MODEL, THIRD)
    warehouse.must_be_exact()


def test_an_install_that_is_killed_is_repeated_exactly(built: Warehouse) -> None:
    before = built.model()
    with built.holding("lock table cdc.installed_model in exclusive mode"):
        build = built.spawn("dbt", "run", "--select", MODEL, "--full-refresh")
        built.wait_for_waiting(1)
        build.kill()
        build.communicate()
    # An apply that was sent may still end at the server, as a whole.
    assert built.model() in (before, built.recount())

    def is_exact() -> bool:
        # The killed session holds the model until its statement ends.
        built.apply()
        return built.model() == built.recount()

    wait_until(is_exact, "it is exact")


@pytest.mark.slow
def test_two_first_builds_at_once(warehouse: Warehouse) -> None:
    """Both find neither schema nor table; one makes them, the other must not apply again."""
    warehouse.write()
    warehouse.target.execute("drop schema analytics cascade")
    with warehouse.holding("create schema analytics"):
        run = ("run", "--select", "rejected_changes", MODEL)
        both = [warehouse.spawn("dbt", *run) for _ in range(2)]
        warehouse.wait_for_waiting(2)
    for each in both:
        said, _ = each.communicate(timeout=120)
        assert each.returncode == 0, said
    warehouse.apply()
    assert warehouse.model() == warehouse.recount()


def test_two_builds_that_grant_or_drop_the_same_at_once_both_succeed(warehouse: Warehouse) -> None:
    """As of two slots, or threads of one dbt: the server refuses the second one's GRANT."""
    index = f"analytics.waltally_{'0' * 32}"
    warehouse.target.execute(
        "create role granted; create role keeper;"
        " alter function cdc.apply(text, pg_lsn, text) owner to keeper;"
        f" create table analytics.inline_query (); create index {index[10:]} on {TABLE} (count);"
        " create function analytics.one() returns int language sql as 'select 1';"
        " create function analytics.other() returns int language sql as 'select 1';"
        " alter function cdc.drop_unused_indexes(text) set lock_timeout = '1h'"
    )
    macro = ("compile", "--inline", "{{ waltally.grant_to_reader() }}", "--vars", "reader: granted")
    grant = warehouse.do("dbt", "--quiet", *macro)
    adopt = "select cdc.adopt_functions('a', array['analytics.{}()'])"
    for first, second in (
        (grant, grant),
        (adopt.format("one"), adopt.format("other")),
        (f"drop index {index}", "select cdc.drop_unused_indexes('analytics')"),
    ):
        with (
            closing(connect(warehouse.dsns[1])) as other,
            warehouse.waiting(first, other.ask, second) as (builder, _),
        ):
            builder.commit()
    for role in ("granted", "keeper"):
        assert warehouse.target.value(
            f"select has_schema_privilege('{role}', 'analytics', 'usage')"
        )
    warehouse.target.execute(
        "reassign owned by keeper to current_user; drop owned by keeper, granted;"
        " drop role keeper, granted"
    )


def test_a_function_that_is_lost_stops_its_models(built: Warehouse) -> None:
    reader = built.target.value("select cdc.reader_name(%s)", built.slot)
    built.target.execute(f"alter function {reader} rename to lost")
    built.apply()
    assert built.states() == dict.fromkeys(MODELS, "failed")
    told = "select distinct error, remedy from cdc.installed_model"
    ((said, remedy),) = built.target.execute(told)
    assert "is not there" in said
    assert remedy == "`dbt build`"
    # As dbt does: the reader is made again.
    built.put(*MODELS)
    built.must_be_exact()


def test_a_lock_has_one_number_in_python_in_the_database_and_in_dbt(warehouse: Warehouse) -> None:
    for names in (["a"], ["a", "b"], ['Ä "b"\'', "c d"]):
        stored = "select cdc.lock_key('seeding', variadic %s::text[])"
        assert warehouse.target.value(stored, names) == locks.key("seeding", *names)
    macro = f"select {{{{ waltally.lock_key('dbt relation', {json.dumps(names[0])}) }}}}"
    said = warehouse.do("dbt", "--quiet", "compile", "--inline", macro)
    assert warehouse.target.value(said) == locks.key("dbt relation", names[0])
