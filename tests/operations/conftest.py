"""A pipeline that runs as the roles of ops/roles.sql, beside traps and under bad settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from testkit.commands import ROOT
from testkit.system import System
from testkit.traps import traps
from tests.operations import roles

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
    """Set up, seeded, staged and installed, each by its role, which looks into `hostile` first."""
    with roles.own_server(tmp_path_factory.mktemp("roles"), roles.ACCESS) as made:
        run = made.source.execute
        run(
            f"create role {roles.CALLER} login; create role {roles.CREATOR} login; "
            "create role nobody; create schema hostile; "
            f"grant create, usage on schema hostile, public to {roles.CREATOR}; "
            "grant usage on schema hostile to public"
        )
        with made.session(roles.CREATOR).cursor() as cursor:
            cursor.execute(traps("hostile"))
        assert "Not there yet" in roles.grant_rights(made, **roles.EXAMPLE)
        for role in (*roles.ALL, roles.CALLER):
            run(f"alter role {role} set search_path = hostile, pg_catalog")
        for role in roles.ALL:
            run(f"grant nobody to {role}")
            for name in SETTINGS.keys() - (BEFORE_DBT if role == roles.DBT else set()):
                run(f"alter role {role} set {name} to {SETTINGS[name]}")
        profile = made.home / "own" / "profiles.yml"
        profile.parent.mkdir()
        shipped = (ROOT / "profiles.yml.example").read_text()
        profile.write_text(re.sub(r"\n +search_path: .*", "", shipped))
        made.given["DBT_PROFILES_DIR"] = str(profile.parent)
        made.do("loader", "setup")
        grant_amid_traps(made)
        made.by(roles.DBT).do("dbt", "--quiet", "run")
        grant_amid_traps(made)
        made.do("loader", "run", "--once")
        made.by(roles.SPARK).spark_job(roles.SEED)
        made.source.insert(3)
        made.do("loader", "run", "--once")
        made.by(roles.DBT).do("dbt", "--quiet", "run")
        assert grant_amid_traps(made) == ""
        run(
            f"grant usage on schema cdc to {roles.CALLER}, {roles.CREATOR}; "
            f"grant execute on function cdc.apply(text, pg_lsn, text) to {roles.CALLER}; "
            f"grant create, usage on schema analytics to {roles.CREATOR}"
        )
        yield made


def grant_amid_traps(made: System) -> str:
    """Run ops/roles.sql as a superuser whose session looks into `hostile` first."""
    made.source.execute("alter role postgres set search_path = hostile, pg_catalog")
    try:
        return roles.grant_rights(made, **roles.EXAMPLE)
    finally:
        made.source.execute("alter role postgres reset search_path")
