"""Everything runs as the roles of ops/roles.sql, and each of them may do no more."""

from __future__ import annotations

import json

import pytest

from testkit.commands import wait_until
from testkit.databases import application_database, empty_database, paste
from testkit.system import System
from tests.operations import roles
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


@pytest.fixture(scope="module")
def whole(made: System) -> System:
    """The same without the roles' bad settings, which would refuse what their rights must."""
    for role in roles.ALL:
        made.source.execute(f"alter role {role} reset all")
    made.do(*roles.BUILD)
    return made


def test_a_model_over_models_needs_no_more(whole: System) -> None:
    query = (
        "select notification_type, sum(count) as count, max(notification_status) as last"
        ' from "db"."analytics"."ft_service_stats" group by 1'
    )
    place = {"schema": "analytics", "name": "ft_service_stats"}
    relation = {
        "relation": '"db"."analytics"."ft_service_stats"',
        "model": "analytics.ft_service_stats",
    }
    whole.session(roles.DBT).ask(
        "select cdc.install_dependent('waltally', 'analytics', 'by_type', 'by_type', %s, %s,"
        " '{}', null, false)",
        (query, json.dumps([relation | place])),
    )
    whole.do(*roles.BUILD)
    whole.source.insert(4)
    whole.do(*roles.BUILD)
    total = "select sum(count) from analytics."
    assert whole.source.value(f"{total}by_type") == whole.source.value(f"{total}ft_service_stats")
    assert roles.grant_rights(whole, **roles.EXAMPLE) == ""
    assert "last" in whole.by(roles.READER).do("loader", "stats", "by_type")
    whole.by(roles.SPARK).spark_job("spark-submit spark/audit.py --model by_type")
    audited = "select audited_at is not null from cdc.model_state where model_name = 'by_type'"
    assert whole.source.value(audited)
    roles.may_not(
        whole,
        roles.SPARK,
        "select cdc.register_dependent('a.b', 'b', 'c', '{}', '{f()}', '{}', true)",
    )
    whole.source.execute("delete from cdc.dependent_model; drop table analytics.by_type")


@pytest.mark.slow
def test_to_apply_needs_no_more_than_the_seed(whole: System) -> None:
    whole.source.execute("update cdc.installed_model set engine = 'spark'")
    whole.source.insert(3, "sent")
    whole.do("loader", "run", "--once")
    whole.by(roles.SPARK).spark_job("spark-submit spark/apply.py --once")
    assert whole.differences() == []
    whole.source.execute("update cdc.installed_model set engine = 'database'")


INSTALL = f"select cdc.install_model({', '.join(['null'] * 14)})"
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
    "update cdc.installed_model set declaration = declaration",
)
FORBIDDEN = {
    roles.LOADER: [
        "select id from notifications",
        "select count(*) from notification_history",
        "select * from analytics.ft_service_stats",
        f"set role {roles.DBT}",
    ],
    roles.DBT: [
        "select service_id from notifications",
        "select count(*) from notification_history",
        "select name from services",
        "insert into cdc.change_log select * from cdc.change_log",
        "update cdc.installed_model set routine = routine",
        "delete from cdc.baseline_group",
        f"set role {roles.LOADER}",
        "select pg_create_logical_replication_slot('mine', 'wal2json')",
    ],
    roles.SPARK: [
        "select personalisation from notifications",
        "select id from notifications",
        "select reference from notification_history",
        "select name from services",
        "update notifications set notification_status = 'sent'",
        "update analytics.ft_service_stats set count = 0",
        "create function cdc.to_json(text) returns json language sql as 'select null::json'",
        INSTALL,
    ],
    roles.READER: [
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


def test_what_a_role_does_not_need_is_refused(whole: System) -> None:
    for role in roles.ALL:
        roles.may_not(whole, role, *TO_ALL, *FORBIDDEN[role])
        if role != roles.LOADER:
            roles.may_not(whole, role, *TO_ALL_BUT_THE_LOADER)
    owners = {"analytics": roles.DBT, "cdc": roles.LOADER, "cdc_jobs": roles.LOADER}
    assert whole.source.execute(OWNERS) == list(owners.items())
    attributes = (
        "select rolreplication, rolsuper or rolcreatedb or rolcreaterole or rolbypassrls "
        "from pg_roles where rolname = %s"
    )
    for role in roles.ALL:
        replicates = role in (roles.LOADER, roles.SPARK)
        assert whole.source.execute(attributes, role) == [(replicates, False)]
    # What a reader sees.
    for table in ("analytics.ft_service_stats", "cdc.model_watermark", "services"):
        assert whole.session(roles.READER).ask(f"select count(*) > 0 from {table}") == [(True,)]


POLICY = "row-level security policy for table"


def test_a_policy_that_would_hide_rows_of_a_source_is_an_error(whole: System) -> None:
    run, spark = whole.source.execute, whole.by(roles.SPARK)
    # It needs no loader.
    seed = f"{roles.SEED} --forget-purged"
    run("alter table notifications enable row level security")
    run(
        f"create policy few on notifications to {roles.SPARK} using (notification_status <> 'sent')"
    )
    with pytest.raises(MissingRight, match=POLICY) as refused:
        spark.spark_job(seed)
    assert refused.value.remedy.startswith("`alter role … bypassrls`")
    run(f"alter role {roles.SPARK} bypassrls")
    spark.spark_job(seed)
    run(f"alter role {roles.SPARK} nobypassrls; drop policy few on notifications")
    run("alter table notifications disable row level security")
    whole.source.insert(1, "sent")
    whole.do(*roles.BUILD)
    assert whole.differences() == []


def test_a_policy_on_a_model_is_for_its_readers_and_hides_nothing_from_an_apply(
    whole: System,
) -> None:
    run = whole.source.execute
    state = "select state, reason, remedy from cdc.model_state"
    run("alter table analytics.ft_service_stats enable row level security")
    whole.source.insert(1, "sent")
    whole.do(*roles.BUILD)
    assert whole.differences() == []
    done = whole.by(roles.READER).call("loader", "stats", "ft_service_stats")
    assert (done.returncode, POLICY in done.stderr) == (MissingRight.exit_code, True)

    run("alter table analytics.ft_service_stats force row level security")
    whole.source.insert(1, "sent")
    whole.call(*roles.BUILD)
    [(now, reason, remedy)] = run(state)
    assert (now, POLICY in reason) == ("failed", True)
    assert "NO FORCE ROW LEVEL SECURITY" in remedy
    run("alter table analytics.ft_service_stats no force row level security")
    run("alter table analytics.ft_service_stats disable row level security")

    def follows() -> bool:
        whole.call(*roles.BUILD)
        return run(state) == [("follows", None, None)]

    wait_until(follows, "it is tried again")
    assert whole.differences() == []


@pytest.mark.slow
def test_a_source_and_a_target_apart_and_an_older_installation(whole: System) -> None:
    """What a superuser had made belongs to the roles afterwards, whatever they are called."""
    source, target = (empty_database(whole.source.cluster, name) for name in ("app", "apart"))
    source.manifest = whole.source.manifest
    apart = System(source, whole.home, target)
    names = {"loader": "odd Loader", "dbt": "odd Dbt", "spark": "odd Spark", "reader": "odd Reader"}
    odd_owners = [("analytics", "odd Dbt"), ("cdc", "odd Loader"), ("cdc_jobs", "odd Loader")]
    source.load_notify()
    apart.must("setup")
    source.insert(2)
    apart.spark_job(roles.SEED)
    apart.do("dbt", "run")
    apart.do(*roles.BUILD)

    with pytest.raises(AssertionError, match="part is not one of both, source, target"):
        roles.grant_rights(apart, part="middle")
    roles.grant_rights(apart, part="source", **names)
    said = roles.grant_rights(apart, target, part="target", **names, **roles.EXAMPLE)
    grants = said.partition("Run at the source:")[2]
    assert "grant select (ctid, notification_status, notification_type" in grants
    paste(source.cluster, "app", grants)
    allowed = "select has_column_privilege('odd Spark', 'public.notifications', %s, 'select')"
    assert source.value(allowed, "service_id")
    assert not source.value(allowed, "personalisation")
    assert target.execute(OWNERS) == odd_owners
    source.insert(3)
    # Nobody has to install the models again.
    apart.by("odd Loader").do(*roles.BUILD)
    apart.by("odd Dbt").do("dbt", "run")
    assert apart.differences() == []
    assert target.execute(OWNERS) == odd_owners
    for each in (source, target):
        each.connection.close()


@pytest.mark.slow
def test_a_seed_of_partitions_runs_as_its_role(whole: System) -> None:
    with application_database(whole.source.cluster, "parted") as source:
        made = System(source, whole.home).by(roles.LOADER)
        source.execute(PARTITIONED + "".join(map(full, LEAVES)))
        source.insert(3)
        roles.grant_rights(made)
        made.do("loader", "setup")
        roles.grant_rights(made)
        made.by(roles.DBT).do("dbt", "--quiet", "run")
        roles.grant_rights(made)
        made.by(roles.SPARK).spark_job(roles.SEED)
        counted = "select measures[1] from cdc.baseline_group where part = 'public.notifications'"
        assert source.value(counted) == 3
