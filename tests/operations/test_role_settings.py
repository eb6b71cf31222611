"""No setting of a role or of a database stops or bends the pipeline, run without more rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from testkit.commands import LOADER
from testkit.models import Models
from testkit.traps import traps
from tests.operations.roles import (
    ACCESS,
    DBT_ROLE,
    LOADER_ROLE,
    READER_ROLE,
    ROLES,
    SEED_JOB,
    SPARK_ROLE,
    RoleCommands,
    own_server,
)

NASTY = {
    "statement_timeout": "'1ms'",
    "lock_timeout": "'1ms'",
    "idle_in_transaction_session_timeout": "'1ms'",
    "idle_session_timeout": "'50ms'",
    "default_transaction_isolation": "'serializable'",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "standard_conforming_strings": "off",
    "search_path": "trap, pg_catalog",
    "DateStyle": "'German, DMY'",
    "TimeZone": "'Asia/Kathmandu'",
    "IntervalStyle": "'sql_standard'",
    "extra_float_digits": "-15",
    "bytea_output": "'escape'",
    "client_encoding": "'LATIN1'",
    "client_min_messages": "'error'",
    "row_security": "off",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "exit_on_error": "on",
    "synchronous_commit": "off",
    "session_replication_role": "'replica'",
    "plan_cache_mode": "'force_generic_plan'",
    "role": "nobody",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, models: Models) -> Iterator[RoleCommands]:
    with own_server(tmp_path_factory.mktemp("settings"), ACCESS, models) as made:
        made.database.execute(
            "create role nobody; create schema trap; grant usage on schema trap to public"
        )
        made.database.execute(traps("trap"))
        for role in ("waltally_loader", "waltally_spark", "waltally_dbt", "waltally_reader"):
            made.database.execute(f"create role {role} login")
        yield made


@contextmanager
def set_for(made: RoleCommands, place: str, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        made.database.execute(f"alter {place} set {name} to {value}")
    try:
        yield
    finally:
        made.database.execute(f"alter {place} reset all")


def test_all_of_them_at_once_change_no_figure(made: RoleCommands) -> None:
    # The roles are there already: only their rights are missing.
    made.database.execute(f"alter role {LOADER_ROLE} replication")
    made.database.execute(f"alter role {SPARK_ROLE} replication")
    made.grant()
    # What dbt's own sessions do about such settings is in tests/dbt/test_settings.py.
    with ExitStack() as settings:
        for role in set(ROLES) - {DBT_ROLE}:
            made.database.execute(f"grant nobody to {role}")
            settings.enter_context(set_for(made, f"role {role}", NASTY))
        must_be_exact(made)


def must_be_exact(made: RoleCommands) -> None:
    made.loader("setup")
    made.grant()
    made.job(SEED_JOB)
    # dbt leaves sessions idle while it compiles, and some of these settings end such sessions.
    made.database.execute(f"alter role {DBT_ROLE} reset all")
    made.install()
    made.grant()
    made.database.insert(3)
    made.install()
    made.loader("run", "--once", "--build")
    made.database.insert(2, "envoyé €")
    made.database.execute("delete from notifications where notification_status = 'delivered'")
    made.loader("run", "--once", "--build")
    assert made.differences() == []
    made.loader("setup", "--check")
    made.loader("status")
    made.loader("prune")
    service = made.database.value("select service_id::text from notifications limit 1")
    asked = ("ft_service_stats", f"service_id={service}", "--by", "notification_status")
    told = json.loads(made.must(READER_ROLE, str(LOADER), "stats", *asked, "--json"))
    assert told["totals"] == {"live_count": 5, "archived_count": 0}
    assert "envoyé €" in {line["notification_status"] for line in told["lines"]}
