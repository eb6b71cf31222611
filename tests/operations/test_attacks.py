"""Whoever creates objects, calls cdc.apply or sets up roles gains no right and changes no count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from psycopg2 import errors, extensions

from testkit.commands import ROOT, wait_until
from testkit.system import System
from testkit.traps import traps
from tests.operations.roles import (
    ACCESS,
    DBT_ROLE,
    LOADER_ROLE,
    READER_ROLE,
    ROLES,
    SEED_JOB,
    SPARK_ROLE,
    grant_rights,
    install,
    own_server,
)
from waltally.database import connect

CALLER, CREATOR = "caller", "creator"
SETTINGS = {
    **{"statement_timeout": "'1ms'", "lock_timeout": "'1ms'", "idle_session_timeout": "'120ms'"},
    "idle_in_transaction_session_timeout": "'1ms'",
    "default_transaction_isolation": "'serializable'",
    **{"default_transaction_read_only": "on", "default_transaction_deferrable": "on"},
    **{"standard_conforming_strings": "off", "array_nulls": "off", "bytea_output": "'escape'"},
    **{"DateStyle": "'German, DMY'", "IntervalStyle": "'sql_standard'"},
    **{"TimeZone": "'Asia/Kathmandu'", "extra_float_digits": "-15"},
    "timezone_abbreviations": "'India'",
    **{"client_encoding": "'LATIN1'", "client_min_messages": "'error'", "exit_on_error": "on"},
    **{"quote_all_identifiers": "on", "transform_null_equals": "on", "row_security": "off"},
    **{"synchronous_commit": "off", "session_replication_role": "'replica'"},
    **{"plan_cache_mode": "'force_generic_plan'", "role": "nobody"},
}
"""What the roles have besides, and no session may depend on."""
BEFORE_DBT = {
    *("statement_timeout", "lock_timeout", "idle_session_timeout", "client_encoding", "role"),
    *("idle_in_transaction_session_timeout", "exit_on_error"),
}
"""Those that dbt itself would meet before it has begun to build."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A pipeline whose sessions look into `hostile` first and have bad settings, and others."""
    with own_server(tmp_path_factory.mktemp("attacks"), ACCESS) as made:
        made.source.execute(
            f"create role {CALLER} login; create role {CREATOR} login; create role nobody; "
            "create schema hostile; "
            f"grant create, usage on schema hostile, public to {CREATOR}; "
            "grant usage on schema hostile to public"
        )
        with made.session(CREATOR).cursor() as cursor:
            cursor.execute(traps("hostile"))
        grant_rights(made)
        for role in (*ROLES, CALLER):
            made.source.execute(f"alter role {role} set search_path = hostile, pg_catalog")
        for role in ROLES:
            made.source.execute(f"grant nobody to {role}")
            for name in SETTINGS.keys() - (BEFORE_DBT if role == DBT_ROLE else set()):
                made.source.execute(f"alter role {role} set {name} to {SETTINGS[name]}")
        profile = made.home / "own" / "profiles.yml"
        profile.parent.mkdir()
        shipped = (ROOT / "profiles.yml.example").read_text()
        profile.write_text(re.sub(r"\n +search_path: .*", "", shipped))
        made.given["DBT_PROFILES_DIR"] = str(profile.parent)
        made.source.execute("delete from notifications")
        made.do("loader", "setup")
        made.source.take_baseline()
        grant_amid_traps(made)
        install(made)
        made.source.execute(
            f"grant usage on schema cdc to {CALLER}, {CREATOR}; "
            f"grant execute on function cdc.apply(text, pg_lsn, text) to {CALLER}; "
            f"grant create, usage on schema analytics to {CREATOR}"
        )
        yield made


def signature(made: System) -> str:
    """The model's routine, as SQL writes it with its arguments."""
    return str(made.source.value("select routine from cdc.installed_model"))


def grant_amid_traps(made: System) -> None:
    """Run ops/roles.sql as a superuser whose session looks into `hostile` first."""
    made.source.execute("alter role postgres set search_path = hostile, pg_catalog")
    try:
        grant_rights(made)
    finally:
        made.source.execute("alter role postgres reset search_path")


def test_everything_runs_beside_a_trap_for_each_name(made: System) -> None:
    made.source.insert(2, "envoyé €")
    made.do("loader", "run", "--once", "--build")
    made.by(DBT_ROLE).do("dbt", "build", "--exclude-resource-type", "unit_test")
    grant_amid_traps(made)
    for command in (("status",), ("setup", "--check"), ("prune",)):
        made.do("loader", *command)
    service = made.source.value("select service_id::text from notifications limit 1")
    asked = ("ft_service_stats", f"service_id={service}", "--by", "notification_status")
    lines = made.by(READER_ROLE).do("loader", "stats", *asked).splitlines()[4:6]
    numbers = ["2", "2", "0"]
    assert [line.split() for line in lines] == [["envoyé", "€", *numbers], ["total", *numbers]]
    assert made.differences() == []


def test_a_build_outwaits_the_timeouts_of_its_role(made: System) -> None:
    made.source.insert(1)
    made.do("loader", "run", "--once")
    for name in ("statement_timeout", "lock_timeout"):
        made.source.execute(f"alter role {DBT_ROLE} set {name} to '500ms'")
    waits = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and usename = %s"
        " and now() - query_start > interval '0.8 s'"
    )
    with closing(made.session("postgres")) as holder, ThreadPoolExecutor(1) as pool:
        holder.autocommit = False
        holder.ask("lock table cdc.model_watermark in exclusive mode")
        built = pool.submit(made.by(DBT_ROLE).do, "dbt", "run", "--select", "ft_service_stats")
        wait_until(lambda: made.source.value(waits, DBT_ROLE), "it outwaits the timeouts")
        holder.rollback()
        built.result()
    for name in ("statement_timeout", "lock_timeout"):
        made.source.execute(f"alter role {DBT_ROLE} reset {name}")
    assert made.differences() == []


@pytest.mark.slow
def test_spark_s_jobs_run_beside_a_trap_for_each_name(made: System, tmp_path: Path) -> None:
    grant_amid_traps(made)
    made.source.insert(2)
    with made.follow("--build"):
        made.by(SPARK_ROLE).spark_job(SEED_JOB)
        made.do("loader", "wait")
        made.by(SPARK_ROLE).spark_job("spark-submit spark/audit.py")
    assert made.differences() == []
    archive = tmp_path / "archive"
    made.by(SPARK_ROLE).spark_job(f"spark-submit spark/archive.py --to {archive}")
    made.by(SPARK_ROLE).spark_job(f"spark-submit spark/replay.py --from {archive} --compare")


def test_a_constant_means_the_same_in_every_session_of_ours(made: System) -> None:
    dsn = made.source.cluster.dsn(made.source.name, LOADER_ROLE)
    asked = "select '{NULL}'::text[] = array[null::text], timestamptz '2026-01-01 00:00 IST'::text"
    with closing(connect(dsn, "source")) as session:
        assert session.ask(asked) == [(True, "2025-12-31 22:00:00+00")]


def test_a_caller_of_apply_can_do_nothing_else(made: System) -> None:
    made.source.insert(3)
    made.do("loader", "run", "--once")
    slot, routine = made.source.slot, signature(made).partition("(")[0]
    with made.session(CALLER).cursor() as cursor:
        cursor.execute("select state from cdc.apply(%s)", (slot,))
        assert cursor.fetchall() == [("follows",)]
        assert made.differences() == []
        for statement in (
            f"select {routine}('rebuild', '{slot}', null::cdc.change[], '{{1,2}}', null, null,"
            " false)",
            "select cdc.try_models(array[plans], '0/0', null, null, 1) "
            f"from cdc.plan_models('{slot}') as plans",
            f"select cdc.install_model({', '.join(['null'] * 9)})",
            f"select cdc.begin_models(array[plans]) from cdc.plan_models('{slot}') as plans",
            "update cdc.model_watermark set applied_lsn = '0/0'",
            "update analytics.ft_service_stats set count = 0",
            "delete from cdc.installed_model",
            "select payload from cdc.change_log",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(statement)
    assert made.differences() == []


def test_apply_is_refused_to_whoever_was_not_granted_it(made: System) -> None:
    """And a model's routine to all but the owner of apply; dbt's role owns the routine."""
    with made.session(CREATOR).cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
        cursor.execute("select cdc.apply(%s)", (made.source.slot,))
    may_execute = (
        "select rolname from pg_roles where rolname = any(%s) "
        "and has_function_privilege(rolname, %s, 'execute') order by 1"
    )
    allowed = made.source.execute(may_execute, [*ROLES, CREATOR, CALLER], signature(made))
    assert allowed == [(DBT_ROLE,), (LOADER_ROLE,)]


def test_what_a_caller_has_made_for_its_session_changes_nothing(made: System) -> None:
    """A rebuild makes a temporary table; a step of the routines looks into pg_temp last."""
    made.source.insert(1)
    made.do("loader", "run", "--once")
    made.source.execute("update cdc.installed_model set is_refresh_asked = true")
    with made.session(CALLER).cursor() as cursor:
        cursor.execute("set search_path = pg_temp, pg_catalog")
        for name in (
            "ft_service_stats__wanted",
            "pg_class",
            "pg_attribute",
            "change_log",
            "registered_model",
        ):
            cursor.execute(f"create temporary table {name} (id integer)")
        cursor.execute(
            "create function pg_temp.now() returns timestamptz language sql "
            "as $$select 'epoch'::timestamptz$$"
        )
        cursor.execute("create type pg_temp.outcome as (a integer)")
        cursor.execute("create domain pg_temp.text as pg_catalog.text check (value = 'no')")
        cursor.execute("select state, reason from cdc.apply(%s)", (made.source.slot,))
        assert cursor.fetchall()[0][0] == "follows"
    assert made.source.value("select not is_refresh_asked from cdc.installed_model")
    assert made.differences() == []


def test_a_function_with_a_routine_s_name_is_not_called(made: System) -> None:
    routine = signature(made).partition("(")[0]
    with made.session(CREATOR).cursor() as cursor:
        for takes in ("text, text, anyarray, integer[], integer[], text[]", "text, text"):
            cursor.execute(
                f"create function {routine}({takes}) returns cdc.outcome language plpgsql "
                "as 'begin raise exception $$it was called$$; end'"
            )
        with pytest.raises(errors.InsufficientPrivilege):
            cursor.execute(
                f"create or replace function {signature(made)} returns cdc.outcome language sql "
                "as 'select null::cdc.outcome'"
            )
    made.source.insert(1)
    made.do("loader", "run", "--once", "--build")
    assert made.differences() == []


@pytest.fixture
def replaced(made: System) -> Iterator[extensions.cursor]:
    """A session of dbt's role, which replaces the routine and wants the rights of the loader's.

    Then dbt makes the routine again, and the model is tried again.
    """
    made.source.insert(1)
    made.do("loader", "run", "--once")
    with made.session(DBT_ROLE).cursor() as cursor:
        cursor.execute("set search_path = pg_catalog; set default_transaction_read_only = off")
        yield cursor
        cursor.execute(f"drop function {signature(made)}")
    install(made)

    def is_exact() -> bool:
        made.call("loader", "run", "--once", "--build")
        return made.differences() == []

    wait_until(is_exact, "it is tried again")


def reason(made: System) -> str:
    """Apply as the loader's role, and return why the model failed."""
    made.call("loader", "run", "--once", "--build")
    asked = "select state, reason from cdc.model_state where model_name = 'ft_service_stats'"
    ((state, why),) = made.source.execute(asked)
    assert state == "failed"
    return str(why)


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
        f"grant execute on function {signature(made)} to {LOADER_ROLE}"
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
    with ThreadPoolExecutor(1) as pool, made.session(CALLER).cursor() as cursor:
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
