"""Whoever creates objects, calls cdc.apply or sets up roles gains no right and changes no count."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from psycopg2 import extensions

from testkit.commands import wait_until
from testkit.system import System
from tests.operations import roles
from waltally.database import connect


def signature(made: System) -> str:
    """The model's routine, as SQL writes it with its arguments."""
    return str(made.source.value("select routine from cdc.installed_model"))


def test_everything_runs_beside_a_trap_for_each_name(made: System) -> None:
    """By its role; what each of them does besides is in test_roles.py."""
    made.source.insert(2, "envoyé €")
    made.source.execute("delete from notifications where notification_status = 'delivered'")
    made.do(*roles.BUILD)
    made.by(roles.DBT).do("dbt", "build", "--exclude-resource-type", "unit_test")
    for command in (("status",), ("setup", "--check"), ("prune",)):
        made.do("loader", *command)
    service = made.source.value("select service_id::text from notifications limit 1")
    asked = ("ft_service_stats", f"service_id={service}", "--by", "notification_status")
    lines = made.by(roles.READER).do("loader", "stats", *asked).splitlines()[4:7]
    counts = {"created": 3, "envoyé €": 2, "total": 5}
    wanted = [[*name.split(), f"{count}", f"{count}", "0"] for name, count in counts.items()]
    assert [line.split() for line in lines] == wanted
    assert made.differences() == []


def test_a_build_outwaits_the_timeouts_of_its_role(made: System) -> None:
    made.source.insert(1)
    made.do("loader", "run", "--once")
    timeouts = ("statement_timeout", "lock_timeout")
    for name in timeouts:
        made.source.execute(f"alter role {roles.DBT} set {name} to '500ms'")
    waits = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and usename = %s"
        " and now() - query_start > interval '0.8 s'"
    )
    lock, dbt = "lock table cdc.model_watermark in exclusive mode", made.by(roles.DBT)
    with ThreadPoolExecutor(1) as pool, made.target.holding(lock) as holder:
        built = pool.submit(dbt.do, "dbt", "run", "--select", "ft_service_stats")
        wait_until(lambda: made.source.value(waits, roles.DBT), "it outwaits the timeouts")
        holder.rollback()
        built.result()
    for name in timeouts:
        made.source.execute(f"alter role {roles.DBT} reset {name}")
    assert made.differences() == []


@pytest.mark.slow
def test_spark_s_jobs_run_beside_a_trap_for_each_name(made: System) -> None:
    made.source.insert(2)
    spark = made.by(roles.SPARK)
    with made.follow("--build"):
        spark.spark_job(roles.SEED)
        made.do("loader", "wait")
        spark.spark_job("spark-submit spark/audit.py")
    assert made.differences() == []


def test_a_constant_means_the_same_in_every_session_of_ours(made: System) -> None:
    asked = "select '{NULL}'::text[] = array[null::text], timestamptz '2026-01-01 00:00 IST'::text"
    with closing(connect(made.dsns[0], "source")) as session:
        assert session.ask(asked) == [(True, "2025-12-31 22:00:00+00")]


def test_a_caller_of_apply_can_do_nothing_else_and_others_not_even_that(made: System) -> None:
    """Nor may they call a model's routine, which dbt's role owns."""
    made.source.insert(3)
    made.do("loader", "run", "--once")
    slot, routine = made.source.slot, signature(made)
    with closing(made.session(roles.CALLER)) as session:
        assert session.ask("select state from cdc.apply(%s)", (slot,)) == [("follows",)]
    roles.may_not(
        made,
        roles.CALLER,
        f"select {routine.partition('(')[0]}('rebuild', '{slot}', null::cdc.change[], '{{1,2}}',"
        " null, null, false)",
        "select cdc.try_models(array[plans], '0/0', null, null, 1) "
        f"from cdc.plan_models('{slot}') as plans",
        f"select cdc.install_model({', '.join(['null'] * 14)})",
        f"select cdc.begin_models(array[plans]) from cdc.plan_models('{slot}') as plans",
        "update cdc.model_watermark set applied_lsn = '0/0'",
        "update analytics.ft_service_stats set count = 0",
        "delete from cdc.installed_model",
        "select payload from cdc.change_log",
    )
    roles.may_not(made, roles.CREATOR, f"select cdc.apply('{slot}')")
    may_execute = (
        "select rolname from pg_roles where rolname = any(%s) "
        "and has_function_privilege(rolname, %s, 'execute') order by 1"
    )
    allowed = made.source.execute(may_execute, [*roles.ALL, roles.CREATOR, roles.CALLER], routine)
    assert allowed == [(roles.DBT,), (roles.LOADER,)]
    assert made.differences() == []


def test_what_a_caller_has_made_for_its_session_changes_nothing(made: System) -> None:
    """A rebuild makes a temporary table; a step of the routines looks into pg_temp last."""
    made.source.insert(1)
    made.do("loader", "run", "--once")
    made.source.execute("update cdc.installed_model set is_refresh_asked = true")
    known = ("ft_service_stats__wanted", *("pg_class", "pg_attribute"))
    with closing(made.session(roles.CALLER)) as session:
        session.ask("set search_path = pg_temp, pg_catalog")
        for name in (*known, "change_log", "registered_model"):
            session.ask(f"create temporary table {name} (id integer)")
        session.ask(
            "create function pg_temp.now() returns timestamptz language sql "
            "as $$select 'epoch'::timestamptz$$;"
            "create type pg_temp.outcome as (a integer);"
            "create domain pg_temp.text as pg_catalog.text check (value = 'no')"
        )
        ((state,),) = session.ask("select state from cdc.apply(%s)", (made.source.slot,))
    assert state == "follows"
    assert made.source.value("select not is_refresh_asked from cdc.installed_model")
    assert made.differences() == []


def test_a_function_with_a_routine_s_name_is_not_called(made: System) -> None:
    made_by_dbt = signature(made)
    routine = made_by_dbt.partition("(")[0]
    with closing(made.session(roles.CREATOR)) as session:
        for takes in ("text, text, anyarray, integer[], integer[], text[]", "text, text"):
            session.ask(
                f"create function {routine}({takes}) returns cdc.outcome language plpgsql "
                "as 'begin raise exception $$it was called$$; end'"
            )
    roles.may_not(
        made,
        roles.CREATOR,
        f"create or replace function {made_by_dbt} returns cdc.outcome language sql "
        "as 'select null::cdc.outcome'",
    )
    made.source.insert(1)
    made.do(*roles.BUILD)
    assert made.differences() == []


@pytest.fixture
def replaced(made: System) -> Iterator[extensions.cursor]:
    """A session of dbt's role, which replaces the routine and wants the rights of the loader's.

    Then dbt makes the routine again, and the model is tried again.
    """
    made.source.insert(1)
    made.do("loader", "run", "--once")
    with made.session(roles.DBT).cursor() as cursor:
        cursor.execute("set search_path = pg_catalog; set default_transaction_read_only = off")
        yield cursor
        cursor.execute(f"drop function {signature(made)}")
    made.by(roles.DBT).do("dbt", "--quiet", "run")

    def is_exact() -> bool:
        made.call(*roles.BUILD)
        return made.differences() == []

    wait_until(is_exact, "it is tried again")


def reason(made: System) -> str:
    """Apply as the loader's role, and return why the model failed."""
    made.call(*roles.BUILD)
    asked = "select reason from cdc.model_state where state = 'failed'"
    return str(made.source.value(asked))


def test_a_routine_that_would_run_as_its_caller_is_refused(
    made: System, replaced: extensions.cursor
) -> None:
    replaced.execute(f"alter function {signature(made)} security invoker")
    assert "is not there, not SECURITY DEFINER" in reason(made)


def test_a_routine_with_a_type_that_has_a_cast_of_its_own_is_refused(
    made: System, replaced: extensions.cursor
) -> None:
    replaced.execute(
        "create type analytics.evil_lsn as (a integer);"
        "create type analytics.evil as (a analytics.evil_lsn, b jsonb, c boolean);"
        "create function analytics.cast_evil(analytics.evil_lsn) returns pg_lsn language plpgsql "
        "as $$begin raise exception 'it runs as %', current_user; end$$;"
        "create cast (analytics.evil_lsn as pg_lsn) "
        "with function analytics.cast_evil as assignment;"
        f"drop function {signature(made)};"
        f"create function {signature(made)} returns analytics.evil language sql security definer "
        "as $$select row(row(1)::analytics.evil_lsn, null, null)::analytics.evil$$;"
        f"grant execute on function {signature(made)} to {roles.LOADER}"
    )
    assert "not as dbt makes it" in reason(made)


def test_a_routine_that_is_replaced_during_an_apply_is_not_called(
    made: System, replaced: extensions.cursor
) -> None:
    made.source.execute("update cdc.installed_model set is_refresh_asked = true")
    replaced.execute("select pg_advisory_lock(1)")
    reader = made.source.value(
        "select format('%%s(%%s)', oid::regproc, pg_get_function_arguments(oid)) from pg_proc"
        " where oid = cdc.reader_name(%s)::regprocedure",
        made.source.slot,
    )
    made.source.execute(
        f"create or replace function {reader} returns cdc.change[] language plpgsql "
        "security definer as $$begin perform pg_advisory_xact_lock(1); return '{}'; end$$"
    )
    with ThreadPoolExecutor(1) as pool, made.session(roles.CALLER).cursor() as cursor:
        called = pool.submit(cursor.execute, "select cdc.apply(%s)", (made.source.slot,))
        waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        wait_until(lambda: made.source.value(waits) == 1, "the reader waits")
        replaced.execute(f"alter function {signature(made)} security invoker")
        replaced.execute("select pg_advisory_unlock(1)")
        called.result()
    assert "is not there, not SECURITY DEFINER" in reason(made)
    made.source.execute(f"drop function {reader}")


def test_the_slot_is_dropped_beside_a_trap_for_each_name(made: System) -> None:
    """The last test of this file: the others need the slot."""
    made.do("loader", "teardown", "--yes")
    assert made.source.value("select count(*) from pg_catalog.pg_replication_slots") == 0
