"""DDL that changes no row of a model: nothing waits for it."""

from __future__ import annotations

from contextlib import closing

from testkit.commands import wait_until
from testkit.pipeline import Pipeline
from testkit.servers import connect
from tests.partitions.conftest import begin

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


def test_a_model_does_not_wait_where_ddl_changed_no_row_of_it(pipeline: Pipeline) -> None:
    """Nor for a message of anybody, which the plugin fails on where it does not skip it."""
    begin(pipeline)
    source = pipeline.source
    message = "select pg_logical_emit_message(true, 'waltally', repeat(chr(1), 190000000))"
    with pipeline.follow() as running, closing(connect(source.cluster.dsn(source.name))) as session:
        for statement in (*HARMLESS, message):
            for part in statement.split(";"):
                session.ask(part)
            source.insert(1)
        staged = 2 + len(HARMLESS) + 1
        wait_until(lambda: pipeline.staged() == staged, "the rows are staged")
    assert "wait" not in running.said()
    pipeline.must_be_exact()
    assert pipeline.findings() == []
