"""DDL that changes rows and writes no change of them: where the source tells of it, models wait."""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import closing

import pytest

from loader.source import ddl_notes
from testkit.commands import run, wait_until
from testkit.databases import paste
from testkit.pipeline import Pipeline
from testkit.servers import BIN, connect
from tests.partitions.conftest import begin, partition, waits_for_a_seed

SILENT = {
    "not logged for a while": "alter table notifications set unlogged; {insert};"
    "alter table notifications set logged",
    "other values": "alter table notifications "
    "alter notification_status type text using upper(notification_status)",
    "other values after a rolled back savepoint": "begin; savepoint a; alter table notifications "
    "alter notification_status type text using lower(notification_status); rollback to a;"
    "savepoint b; alter table notifications "
    "alter notification_status type text using upper(notification_status); release b; commit",
    "two columns swap their names and swap back": "{swap}; {insert}; {swap}",
    "two tables swap their names": "create table other (like notifications including all);"
    "alter table other replica identity full; {insert}; begin;"
    "alter table notifications rename to away; alter table other rename to notifications;"
    "alter table away rename to other; commit; drop table other",
    "a table has another name for a while": "begin; alter table notifications rename to away;"
    "insert into away select * from copies; update copies set id = gen_random_uuid();"
    "alter table away rename to notifications; commit",
    "a schema has another name for a while": "alter schema public rename to away;"
    "insert into away.notifications select * from away.copies;"
    "update away.copies set id = gen_random_uuid(); alter schema away rename to public",
    "in a session that fires no triggers": "set session_replication_role to replica;"
    "alter table notifications set unlogged; {insert}; alter table notifications set logged",
    "a value of an enum has another name": "alter type notification_type rename value 'email' to "
    "'mail'; alter type notification_type add value 'email'",
}
PARTS = {
    "insert": "insert into notifications select * from copies;"
    "update copies set id = gen_random_uuid()",
    "swap": "alter table notifications rename service_id to other;"
    "alter table notifications rename template_id to service_id;"
    "alter table notifications rename other to template_id",
}
"""Swapped twice, both columns are again what they were."""

HARMLESS = (
    *("vacuum full notifications", "cluster notifications using notifications_pkey"),
    "alter table notifications add plain int",
    "alter table notifications add filled int default 7",
    "alter table notifications add rewritten uuid default gen_random_uuid()",
    "alter table notifications drop plain",
    "alter table notifications rename filled to full_of_it",
    "alter table notifications alter billable_units type numeric",
    "alter table notifications alter notification_status set statistics 100",
    "alter table notifications set (fillfactor = 90)",
    "alter table templates alter name type text using upper(name)",
    "create table others (id int); alter table others set unlogged",
    "create schema s; alter schema s rename to t; drop schema t",
    *("alter type notification_type add value 'push'", "alter type notification_type rename to n"),
    "create type mood as enum ('a'); alter type mood rename value 'a' to 'b'",
    "create temp table notifications_pairs as select 1 as service_id;"
    "alter table notifications_pairs rename service_id to notification_status",
)


def tell(pipeline: Pipeline) -> subprocess.CompletedProcess[str]:
    """Let the source tell of DDL, by the command that `loader setup` prints."""
    command = ddl_notes.missing_note(pipeline.source.connection)
    assert command is not None
    return run_psql(pipeline, command)


def run_psql(pipeline: Pipeline, said: str) -> subprocess.CompletedProcess[str]:
    """Run the command that is to be run at a shell of the source."""
    program, *arguments = shlex.split(said.split("of the source: ")[1].splitlines()[0])
    environment = {**os.environ, **pipeline.source.cluster.environment(pipeline.source.name)}
    return run([str(BIN / program), *arguments], environment)


@pytest.fixture
def partitioned(pipeline: Pipeline) -> Pipeline:
    return partition(pipeline)


@pytest.fixture
def telling(pipeline: Pipeline) -> Pipeline:
    """A pipeline with a baseline whose source tells of DDL, and rows that go by such ways."""
    assert tell(pipeline).returncode == 0
    begin(pipeline)
    pipeline.source.execute(
        "create table copies as select * from notifications limit 3;"
        "update copies set id = gen_random_uuid()"
    )
    assert pipeline.findings() == []
    return pipeline


def execute(pipeline: Pipeline, ddl: str) -> None:
    """Execute each statement in a transaction of its own, or in the one that it begins."""
    with closing(connect(pipeline.source.cluster.dsn(pipeline.source.name))) as session:
        for statement in ddl.format(**PARTS).split(";"):
            session.ask(statement)


def waits_after(pipeline: Pipeline, ddl: str, case: str = "") -> None:
    before = pipeline.model()
    execute(pipeline, ddl)
    pipeline.source.insert(1)
    pipeline.stage()
    waits_for_a_seed(pipeline, before, case)


def test_a_model_waits_where_ddl_changed_rows(telling: Pipeline) -> None:
    for case, ddl in SILENT.items():
        waits_after(telling, ddl, case)
    # It goes on where it cannot be told.
    telling.source.execute("drop table waltally.ddl_prefix")
    execute(telling, SILENT["other values"])
    telling.source.execute("alter table notifications rename service_id to other")
    assert telling.source.value("select count(other) > 0 from notifications")


def test_a_model_does_not_wait_where_ddl_changed_no_row_of_it(telling: Pipeline) -> None:
    """Nor for a message of anybody, which the plugin fails on where it does not skip it."""
    telling.source.execute("analyze")
    with telling.follow() as running:
        for statement in HARMLESS:
            execute(telling, statement)
            telling.source.insert(1)
        telling.source.execute(
            "select pg_logical_emit_message(true, 'waltally-none', repeat(chr(1), 190000000))"
        )
        telling.source.insert(1)
        staged = 2 + len(HARMLESS) + 1
        wait_until(lambda: telling.staged() == staged, "the rows are staged")
    assert "wait" not in running.said()
    telling.must_be_exact()
    assert telling.findings() == []


def test_a_partition_is_a_part_of_its_table(partitioned: Pipeline, telling: Pipeline) -> None:
    execute(
        telling,
        "begin; create table late (like notifications); alter table late replica identity full;"
        "alter table notifications attach partition late for values in ('late'); commit",
    )
    telling.must_be_exact()
    for ddl in (
        "alter table parts.created set unlogged; {insert}; alter table parts.created set logged",
        "alter table notifications alter service_id type uuid using template_id",
        "{swap}; {swap}",
        "alter schema parts rename to away; alter schema away rename to parts",
    ):
        waits_after(telling, ddl, ddl)


def test_a_running_loader_notices_that_the_source_tells_of_ddl(pipeline: Pipeline) -> None:
    assert "DDL that changes rows without" in pipeline.must("setup")
    begin(pipeline)
    with pipeline.follow() as running:
        assert tell(pipeline).returncode == 0
        assert "is not noticed" not in pipeline.must("setup")
        running.wait_for("has begun to report DDL")
        running.wait_for("following the slot", 2)
        execute(pipeline, SILENT["other values"])
        running.wait_for("so its models wait")
        assert "Try: `spark-submit spark/seed.py`, then `dbt build`" in running.said()
        pipeline.source.execute("drop schema waltally cascade")
        running.wait_for("following the slot", 3)


OTHER_ROLE = (
    "grant all on schema public to {0}; create table public.own (id int, name text);"
    "alter table public.own owner to {0}"
)
"""A role that owns a table, as an application's does."""


def test_whoever_alters_a_table_gains_nothing(telling: Pipeline) -> None:
    prefix = telling.source.value("select prefix from waltally.ddl_prefix")
    with telling.source.role(OTHER_ROLE) as role:
        with telling.session(role).cursor() as cursor:
            # Found first by a session's own path, and run as the owner of the trigger's function.
            for function, kind in (
                ("pg_logical_emit_message(boolean, text, text)", "pg_lsn"),
                ("encode(bytea, text)", "text"),
            ):
                cursor.execute(
                    f"create function public.{function} returns {kind} language plpgsql as "
                    f"$$ begin execute 'alter role {role} superuser'; return null; end $$"
                )
            cursor.execute("set search_path to public, pg_catalog")
            cursor.execute("alter table own alter name type text using upper(name)")
            cursor.execute("alter table own rename id to service_id")
            for refused in (
                "select prefix from waltally.ddl_prefix",
                "select waltally.write_note('public', 'notifications', null)",
                "drop function waltally.note_rename()",
                "drop event trigger waltally_rewrite",
            ):
                with pytest.raises(Exception, match=r"permission denied|must be owner"):
                    cursor.execute(refused)
        assert not telling.source.value("select rolsuper from pg_roles where rolname = %s", role)
        # Somebody who does not know the prefix is not heard, whatever he says.
        emit = "select pg_logical_emit_message(true, %s, %s)"
        note = b'{"schema": "public", "table": "notifications", "columns": null}'.hex()
        for guess in ("waltally", "waltally-none", "waltally_none", prefix[:-1]):
            telling.source.execute(emit, guess, note)
        telling.must_be_exact()
        # Who knows it makes models wait, and nothing else.
        for said in ("x", "", "ff", note):
            telling.source.execute(emit, prefix, said)
        telling.stage()
        assert telling.is_said_to_wait()


OLDER = (
    "create or replace function waltally.note_rename() returns event_trigger language plpgsql as "
    "$$ begin null; end $$",
    "drop event trigger waltally_rename; create event trigger waltally_rename on ddl_command_end "
    "when tag in ('ALTER TABLE') execute function waltally.note_rename()",
)
"""What an older version may have left at the source."""


def test_functions_of_another_version_are_found_and_replaced(telling: Pipeline) -> None:
    prefix = telling.source.value("select prefix from waltally.ddl_prefix")
    for older in OLDER:
        assert "Everything is set up." in telling.must("setup", "--check")
        telling.source.execute(older)
        other = "functions of another version of waltally"
        said = telling.refused_with(20, other, "setup", "--check")
        assert run_psql(telling, said).returncode == 0
    assert "Everything is set up." in telling.must("setup", "--check")
    assert telling.source.value("select prefix from waltally.ddl_prefix") == prefix
    waits_after(telling, "alter schema public rename to away; alter schema away rename to public")


def test_who_is_believed_and_how_another_role_can_know(pipeline: Pipeline) -> None:
    """A schema that somebody else made is not believed."""
    ours, run = pipeline.source.connection, pipeline.source.execute
    rights = f"grant create on database {pipeline.source.name} to {{0}}"
    with pipeline.source.role(rights) as role, closing(pipeline.session(role)) as session:
        session.ask(
            "create schema waltally; create table waltally.ddl_prefix as select 'mine' as "
            "prefix; grant usage on schema waltally to public;"
            "grant select on all tables in schema waltally to public"
        )
        assert ddl_notes.read_prefix(ours) is None
        done = tell(pipeline)
        assert (done.returncode, 'schema "waltally" already exists' in done.stderr) == (3, True)
        run("drop schema waltally cascade")
        assert tell(pipeline).returncode == 0
        assert ddl_notes.read_prefix(session) is None
        note = ddl_notes.missing_note(session)
        assert note is not None
        paste(pipeline.source.cluster, pipeline.source.name, note.split("note_ddl.sql: ")[1])
        assert ddl_notes.read_prefix(session) is not None
        assert ddl_notes.missing_note(session) is None
        functions = ("function waltally.note_rename()", "function waltally.note_rewrite()")
        for owned in ("schema waltally", "table waltally.ddl_prefix", *functions):
            assert ddl_notes.read_prefix(ours) is not None
            run(f"alter {owned} owner to {role}")
            assert ddl_notes.read_prefix(ours) is None, owned
            run(f"alter {owned} owner to postgres")
