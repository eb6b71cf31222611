"""Faults that end database sessions or change their settings."""

from __future__ import annotations

from tests.soak.commands import kill_group
from tests.soak.faults.processes import start_build
from tests.soak.faults.waiting import wait_at_most
from tests.soak.servers import ROLE
from tests.soak.system import System

END_SESSIONS = "select count(pg_terminate_backend(pid)) from pg_stat_activity where "

ROLE_SETTINGS = (
    ("statement_timeout", "'100ms'"),
    ("lock_timeout", "'10ms'"),
    ("idle_session_timeout", "'500ms'"),
    ("idle_in_transaction_session_timeout", "'100ms'"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_isolation", "'serializable'"),
    ("standard_conforming_strings", "off"),
    ("synchronous_commit", "off"),
    ("search_path", "''"),
    ("datestyle", "'German'"),
    ("intervalstyle", "'sql_standard'"),
    ("timezone", "'Asia/Kathmandu'"),
    ("bytea_output", "'escape'"),
    ("extra_float_digits", "-15"),
    ("client_encoding", "'LATIN1'"),
    ("quote_all_identifiers", "on"),
    ("row_security", "off"),
    ("array_nulls", "off"),
    ("work_mem", "'64kB'"),
    ("client_min_messages", "'error'"),
    ("tcp_user_timeout", "1000"),
)
"""Parameters that would break or stall a session that relies on their defaults."""


def end_walsender(system: System) -> None:
    """End the WAL sender of the slot."""
    system.ask(END_SESSIONS + "pid = %s", system.walsender_pid())


def end_target_backend(system: System) -> None:
    """End the loader's session on the target."""
    system.ask_target(
        END_SESSIONS + "application_name = 'waltally loader' and backend_type = 'client backend'"
    )


def end_dbt_backend(system: System) -> None:
    """End all sessions of dbt, also those of the loader's builds."""
    build = start_build(system)
    system.pause_randomly(0, 0.3)
    system.ask_target(END_SESSIONS + "application_name in ('dbt', 'waltally apply')")
    wait_at_most(system, lambda: build.poll() is not None, 60)
    kill_group(build)


def role_setting(system: System) -> None:
    """Set a parameter for the role, and end its sessions so that they return with it."""
    name, value = system.random.choice(ROLE_SETTINGS)
    places = {system.dsn, system.target_dsn}
    try:
        for dsn in places:
            system.ask(f"alter role {ROLE} set {name} = {value}", dsn=dsn)
            system.ask(END_SESSIONS + "usename = %s", ROLE, dsn=dsn)
        system.wait_until_streaming()
        system.wait_until_staged()
    finally:
        for dsn in places:
            system.ask(f"alter role {ROLE} reset all", dsn=dsn)
            system.ask(END_SESSIONS + "usename = %s", ROLE, dsn=dsn)
