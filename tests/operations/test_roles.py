"""Everything runs as the roles of ops/roles.sql, and each of them may do no more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from psycopg2 import errors

from testkit.commands import wait_until
from testkit.databases import application_database, empty_database, paste
from testkit.system import System
from tests.operations.roles import (
    ACCESS,
    DBT_ROLE,
    LOADER_ROLE,
    READER_ROLE,
    ROLES,
    SEED_JOB,
    SPARK_ROLE,
    grant_rights,
    own_server,
)
from tests.partitions.conftest import LEAVES, PARTITIONED, full
from waltally.errors import MissingRight

OWNERS = """
select distinct
    n.nspname, pg_get_userbyid(unnest(array[n.nspowner, coalesce(c.relowner, n.nspowner)]))
from pg_namespace as n
left join pg_class as c on c.relnamespace = n.oid
where n.nspname in ('cdc', 'cdc_jobs', 'analytics')
order by n.nspname
"""


EXAMPLE = {
    "readable": "public.services",
    "lookups": "public.services,public.templates",
}
"""What the shipped example has besides its models."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The application's database, before anything of waltally was there."""
    with own_server(tmp_path_factory.mktemp("roles"), ACCESS) as made:
        yield made


@pytest.fixture(scope="module")
def whole(bare: System) -> System:
    """Set up, seeded, staged and built, each by its role."""
    assert "Not there yet" in grant_rights(bare, **EXAMPLE)
    bare.do("loader", "setup")
    grant_rights(bare, **EXAMPLE)
    bare.by(SPARK_ROLE).spark_job(SEED_JOB)
    bare.source.insert(3)
    bare.do("loader", "run", "--once")
    bare.by(DBT_ROLE).do("dbt", "run")
    assert grant_rights(bare, **EXAMPLE) == ""
    bare.source.insert(2, "sent")
    bare.source.execute("delete from notifications where notification_status = 'delivered'")
    bare.do("loader", "run", "--once", "--build")
    return bare


def test_the_pipeline_is_exact_as_its_roles_and_a_reader_sees_the_counts(whole: System) -> None:
    assert whole.source.value("select sum(count) from analytics.ft_service_stats") == 5
    assert whole.differences() == []
    whole.by(DBT_ROLE).do("dbt", "test", "--select", "ft_service_stats", "rejected_changes")
    whole.do("loader", "status")
    said = whole.by(READER_ROLE).do("loader", "stats", "ft_service_stats")
    assert said.splitlines()[4].split() == ["5", "5", "0"]
    with whole.session(READER_ROLE).cursor() as cursor:
        cursor.execute(
            "select sum(count), (select count(*) > 0 from services) from analytics.ft_service_stats"
        )
        assert cursor.fetchone() == (5, True)
        cursor.execute("select count(*) from cdc.model_watermark")
        assert cursor.fetchone() == (1,)


def test_a_model_over_models_needs_no_more(whole: System) -> None:
    query = (
        "select notification_type, sum(count) as count, max(notification_status) as last"
        ' from "db"."analytics"."ft_service_stats" group by 1'
    )
    relation = {
        "relation": '"db"."analytics"."ft_service_stats"',
        "model": "analytics.ft_service_stats",
        "schema": "analytics",
        "name": "ft_service_stats",
    }
    with whole.session(DBT_ROLE).cursor() as cursor:
        cursor.execute(
            "select cdc.install_downstream('waltally', 'analytics', 'by_type', 'by_type', %s, %s,"
            " '{}', null, false)",
            (query, json.dumps([relation])),
        )
    whole.do("loader", "run", "--once", "--build")
    whole.source.insert(4)
    whole.do("loader", "run", "--once", "--build")
    total = "select sum(count) from analytics."
    assert whole.source.value(f"{total}by_type") == whole.source.value(f"{total}ft_service_stats")
    assert grant_rights(whole, **EXAMPLE) == ""
    assert "last" in whole.by(READER_ROLE).do("loader", "stats", "by_type")
    whole.by(SPARK_ROLE).spark_job("spark-submit spark/audit.py --model by_type")
    audited = "select audited_at is not null from cdc.model_state where model_name = 'by_type'"
    assert whole.source.value(audited)
    with whole.session(SPARK_ROLE).cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
        cursor.execute("select cdc.register_downstream('a.b', 'b', 'c', '{}', 'f()', '{}', true)")
    whole.source.execute("delete from cdc.downstream_model; drop table analytics.by_type")


@pytest.mark.slow
def test_to_apply_needs_no_more_than_the_seed(whole: System) -> None:
    whole.source.execute("update cdc.installed_model set engine = 'spark'")
    whole.source.insert(3, "sent")
    whole.do("loader", "run", "--once")
    whole.by(SPARK_ROLE).spark_job("spark-submit spark/apply.py --once")
    assert whole.differences() == []
    whole.source.execute("update cdc.installed_model set engine = 'database'")


def test_each_role_owns_its_schemas_and_has_no_more_of_the_server(whole: System) -> None:
    assert whole.source.execute(OWNERS) == [
        ("analytics", DBT_ROLE),
        ("cdc", LOADER_ROLE),
        ("cdc_jobs", LOADER_ROLE),
    ]
    rows = whole.source.execute(
        "select rolname, rolreplication, rolsuper or rolcreatedb or rolcreaterole or rolbypassrls "
        "from pg_roles where rolname = any(%s)",
        list(ROLES),
    )
    assert sorted(rows) == [
        (DBT_ROLE, False, False),
        (LOADER_ROLE, True, False),
        (READER_ROLE, False, False),
        (SPARK_ROLE, True, False),
    ]


INSTALL = f"select cdc.install_model({', '.join(['null'] * 9)})"
TO_ALL = (
    "create schema another",
    "create table public.another ()",
    "insert into unrelated (note) values ('x')",
    "select count(*) from pg_authid",
)
TO_ALL_BUT_THE_LOADER = (
    "create table cdc.another ()",
    "delete from cdc.change_log",
    "update cdc.slot_position set position_lsn = position_lsn",
    "update cdc.model_watermark set applied_lsn = applied_lsn",
    "update cdc.registered_model set declaration = declaration",
)
FORBIDDEN = {
    LOADER_ROLE: [
        "select id from notifications",
        "select count(*) from notification_history",
        "select * from analytics.ft_service_stats",
        f"set role {DBT_ROLE}",
    ],
    DBT_ROLE: [
        "select service_id from notifications",
        "select count(*) from notification_history",
        "select name from services",
        "insert into cdc.change_log select * from cdc.change_log",
        "update cdc.installed_model set routine = routine",
        "delete from cdc.baseline_group",
        f"set role {LOADER_ROLE}",
        "select pg_create_logical_replication_slot('mine', 'wal2json')",
    ],
    SPARK_ROLE: [
        "select personalisation from notifications",
        "select id from notifications",
        "select reference from notification_history",
        "select name from services",
        "update notifications set notification_status = 'sent'",
        "update analytics.ft_service_stats set count = 0",
        "create function cdc.to_json(text) returns json language sql as 'select null::json'",
        INSTALL,
    ],
    READER_ROLE: [
        "select service_id from notifications",
        "select payload from cdc.change_log",
        "select * from cdc.slot_position",
        "select payload from analytics.rejected_changes",
        "select * from cdc.computed_change",
        "update analytics.ft_service_stats set count = 0",
        "create table analytics.another ()",
        "select cdc.apply('slot')",
        f"select cdc.apply_computed({', '.join(['null'] * 7)})",
        INSTALL,
        "select pg_create_logical_replication_slot('mine', 'wal2json')",
    ],
}


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_does_not_need_is_refused(whole: System, role: str) -> None:
    statements = [*TO_ALL, *(() if role == LOADER_ROLE else TO_ALL_BUT_THE_LOADER)]
    session = whole.session(role)
    for statement in statements + FORBIDDEN[role]:
        with session.cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
            cursor.execute(statement)
            pytest.fail(f"{role} may {statement}")
    session.close()


POLICY = "row-level security policy for table"


def test_a_policy_that_would_hide_rows_of_a_source_is_an_error(whole: System) -> None:
    run = whole.source.execute
    # It needs no loader.
    seed = f"{SEED_JOB} --forget-purged"
    run("alter table notifications enable row level security")
    run(f"create policy few on notifications to {SPARK_ROLE} using (notification_status <> 'sent')")
    with pytest.raises(MissingRight, match=POLICY) as refused:
        whole.by(SPARK_ROLE).spark_job(seed)
    assert refused.value.remedy.startswith("`alter role … bypassrls`")
    run(f"alter role {SPARK_ROLE} bypassrls")
    whole.by(SPARK_ROLE).spark_job(seed)
    run(f"alter role {SPARK_ROLE} nobypassrls; drop policy few on notifications")
    run("alter table notifications disable row level security")
    whole.source.insert(1, "sent")
    whole.do("loader", "run", "--once", "--build")
    assert whole.differences() == []


def test_a_policy_on_a_model_is_for_its_readers_and_hides_nothing_from_an_apply(
    whole: System,
) -> None:
    run = whole.source.execute
    state = "select state, reason, remedy from cdc.model_state"
    run("alter table analytics.ft_service_stats enable row level security")
    whole.source.insert(1, "sent")
    whole.do("loader", "run", "--once", "--build")
    assert whole.differences() == []
    done = whole.by(READER_ROLE).call("loader", "stats", "ft_service_stats")
    assert (done.returncode, POLICY in done.stderr) == (MissingRight.exit_code, True)

    run("alter table analytics.ft_service_stats force row level security")
    whole.source.insert(1, "sent")
    whole.call("loader", "run", "--once", "--build")
    [(now, reason, remedy)] = run(state)
    assert (now, POLICY in reason) == ("failed", True)
    assert "NO FORCE ROW LEVEL SECURITY" in remedy
    run("alter table analytics.ft_service_stats no force row level security")
    run("alter table analytics.ft_service_stats disable row level security")

    def follows() -> bool:
        whole.call("loader", "run", "--once", "--build")
        return run(state) == [("follows", None, None)]

    wait_until(follows, "it is tried again")
    assert whole.differences() == []


@pytest.mark.slow
def test_a_source_and_a_target_apart_and_an_older_installation(bare: System) -> None:
    """What a superuser had made belongs to the roles afterwards, whatever they are called."""
    source, target = (empty_database(bare.source.cluster, name) for name in ("app", "apart"))
    source.manifest = bare.source.manifest
    apart = System(source, bare.home, target)
    names = {"loader": "odd Loader", "dbt": "odd Dbt", "spark": "odd Spark", "reader": "odd Reader"}
    odd_owners = [("analytics", "odd Dbt"), ("cdc", "odd Loader"), ("cdc_jobs", "odd Loader")]
    build = ("loader", "run", "--once", "--build")
    source.load_notify()
    apart.must("setup")
    source.insert(2)
    apart.spark_job(SEED_JOB)
    apart.do("dbt", "run")
    apart.do(*build)

    grant_rights(apart, part="source", **names)
    said = grant_rights(apart, target, part="target", **names, **EXAMPLE)
    grants = said.partition("Run at the source:")[2]
    assert "grant select (ctid, notification_status, notification_type" in grants
    paste(source.cluster, "app", grants)
    allowed = "select has_column_privilege('odd Spark', 'public.notifications', %s, 'select')"
    assert source.value(allowed, "service_id")
    assert not source.value(allowed, "personalisation")
    assert target.execute(OWNERS) == odd_owners
    source.insert(3)
    # Nobody has to install the models again.
    apart.by("odd Loader").do(*build)
    apart.by("odd Dbt").do("dbt", "run")
    assert apart.differences() == []
    assert target.execute(OWNERS) == odd_owners
    for each in (source, target):
        each.connection.close()


@pytest.mark.slow
def test_a_seed_of_partitions_runs_as_its_role(bare: System) -> None:
    with application_database(bare.source.cluster, "parted") as source:
        made = System(source, bare.home).by(LOADER_ROLE)
        source.execute(PARTITIONED + "".join(map(full, LEAVES)))
        source.insert(3)
        grant_rights(made)
        made.do("loader", "setup")
        grant_rights(made)
        made.by(SPARK_ROLE).spark_job(SEED_JOB)
        counted = "select measures[1] from cdc.baseline_group where part = 'public.notifications'"
        assert source.value(counted) == 3


def test_an_unknown_part_is_refused(bare: System) -> None:
    with pytest.raises(AssertionError, match="part is not one of both, source, target"):
        grant_rights(bare, part="middle")
