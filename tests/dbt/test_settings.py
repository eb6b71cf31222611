"""No setting of a role stops a build or changes a number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from testkit.commands import wait_until
from testkit.servers import connect
from testkit.traps import traps
from tests.dbt.project import Project
from tests.dbt.staged import DATABASE, SHIPPED, Warehouse
from tests.dbt.workload import Application

RUN = ("run", *SHIPPED)
ROLE_SETTINGS = {
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "statement_timeout": "'500ms'",
    "lock_timeout": "'300ms'",
    "idle_in_transaction_session_timeout": "'500ms'",
    "search_path": "hostile, pg_catalog",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "row_security": "on",
    "synchronous_commit": "remote_apply",
    "DateStyle": "'SQL, DMY'",
    "IntervalStyle": "sql_standard",
    "TimeZone": "'Asia/Tokyo'",
    "timezone_abbreviations": "'India'",
    "array_nulls": "off",
    "extra_float_digits": "-5",
    "bytea_output": "escape",
}
WAITS = (
    "select count(*) > 0 from pg_stat_activity where usename = 'builder' "
    "and wait_event_type = 'Lock' and now() - query_start > interval '0.8 seconds'"
)


@pytest.fixture
def builder(fresh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    """A warehouse that dbt enters with a role of no rights but its own, and bad settings."""
    fresh.execute(
        "create role builder login; grant usage on schema cdc to builder; "
        f"grant create on database {DATABASE} to builder; "
        "grant select on all tables in schema cdc to builder; "
        "grant insert, delete on cdc.archived_delete to builder; "
        "grant execute on all functions in schema cdc to builder; "
        "create schema hostile; grant usage on schema hostile to public"
    )
    for name, value in ROLE_SETTINGS.items():
        fresh.execute(f"alter role builder set {name} = {value}")
    monkeypatch.setenv("PGUSER", "builder")
    with fresh.project.without_search_path():
        yield fresh
    fresh.execute("drop owned by builder cascade; drop role builder")


def test_no_setting_of_the_role_matters(builder: Warehouse) -> None:
    with closing(connect(builder.cluster.dsn(DATABASE))) as admin:
        admin.ask(traps("hostile"))

    application = Application(71)
    builder.append(*(application.transaction() for _ in range(100)))
    builder.must(*RUN)
    assert builder.counts() == application.counts()
    builder.append(*(application.transaction() for _ in range(100)), [{"action": "Z"}])
    with builder.waiting("lock table cdc.model_watermark in exclusive mode", builder.must, *RUN):
        wait_until(lambda: builder.value(WAITS), "it outwaits the timeouts")
    assert builder.counts() == application.counts()
    reasons = "select reason from analytics.rejected_changes"
    assert builder.execute(reasons) == [("the action is not known",)]


def test_each_setting_of_the_role_is_another_in_a_build(
    builder: Warehouse, project: Project
) -> None:
    """Also those that the shipped model's types do not depend on."""
    names = [name.replace("default_transaction", "transaction") for name in ROLE_SETTINGS]
    ask = "select " + ", ".join(f"pg_catalog.current_setting('{name}')" for name in names)
    pin = project.call("pin_transaction")
    with closing(connect(builder.cluster.dsn(DATABASE, "builder"))) as session:
        (bad,) = session.ask(ask)
        with session.transaction():
            session.ask(pin)
            (pinned,) = session.ask(ask)
    assert [name for name, a, b in zip(names, bad, pinned, strict=True) if a == b] == []
