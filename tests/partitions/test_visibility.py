"""A commit is streamed before other sessions see it; the loader waits for its leaves."""

from __future__ import annotations

import threading

import pytest

from testkit.commands import wait_until
from testkit.fixtures import MakePipeline
from testkit.servers import Cluster, administer
from tests.partitions.conftest import full, partition

LEAF = (
    "begin; create table failed partition of notifications for values in ('failed');"
    + full("failed")
    + 'insert into failed ("to", service_id, template_id, notification_type, notification_status)'
    " select 'x', service_id, id, 'email', 'failed' from templates; commit"
)

ARCHIVED = (
    "insert into notification_history (id, service_id, template_id, notification_type, "
    "notification_status, created_at) select gen_random_uuid(), service_id, id, 'email', 'sent', "
    "now() from templates limit 1"
)


def test_no_position_is_stored_before_a_streamed_leaf_is_visible(
    make_pipeline: MakePipeline, spare: Cluster
) -> None:
    pipeline = partition(make_pipeline(spare))
    pipeline.set_up()
    # Only a session that asks for it waits for the standby, which never comes.
    administer(
        spare,
        "alter system set synchronous_commit = 'local'",
        "alter system set synchronous_standby_names = 'missing'",
        "select pg_reload_conf()",
    )
    hidden = pipeline.source.reconnect()
    pid = hidden.value("select pg_backend_pid()")
    hidden.execute("set synchronous_commit = 'on'")
    thread = threading.Thread(target=hidden.execute, args=(LEAF,), daemon=True)
    wait = "select wait_event = 'SyncRep' from pg_stat_activity where pid = %s"
    try:
        with pipeline.follow() as running:
            thread.start()
            wait_until(lambda: pipeline.source.value(wait, pid), "the commit waits")
            # The new leaf's transaction locks its own table.
            pipeline.source.execute(ARCHIVED)
            with pytest.raises(AssertionError, match="something is stored"):
                wait_until(lambda: pipeline.staged() > 0, "something is stored", seconds=1)
            pipeline.source.execute("select pg_cancel_backend(%s)", pid)
            running.wait_for("has other partitions")
            pipeline.wait_for_staged(4)
    finally:
        pipeline.source.execute("select pg_cancel_backend(%s)", pid)
        administer(
            spare,
            "alter system reset synchronous_standby_names",
            "alter system reset synchronous_commit",
            "select pg_reload_conf()",
        )
        thread.join(timeout=30)
        hidden.connection.close()
    pipeline.must_be_exact()
