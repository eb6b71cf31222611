"""Everything of a table's leaves is in its model, once they are visible."""

from __future__ import annotations

import threading

import pytest

from testkit.commands import wait_until
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, configured
from tests.partitions.conftest import full, partition


def made(leaf: str) -> str:
    """Return the SQL that makes a leaf for the status of its name."""
    made = f"create table parts.{leaf} partition of notifications for values in ('{leaf}');"
    return made + full(f"parts.{leaf}")


def test_changes_of_all_leaves_count_for_the_partitioned_table(partitioned: Pipeline) -> None:
    source = partitioned.source
    partitioned.set_up()
    source.insert(10)
    source.execute(
        "update notifications set notification_type = 'sms' where id in "
        "(select id from notifications limit 5)"
    )
    source.execute("update notifications set notification_status = 'sent'")
    source.execute("update notifications set notification_status = 'x' where ctid = '(0,1)'")
    source.execute("delete from parts.sent_sms where ctid = '(0,2)'")
    partitioned.must_be_exact()
    named = source.execute(
        "select distinct payload::json ->> 'schema', payload::json ->> 'table', "
        "payload::json ->> 'leaf', action is not null from cdc.change_log order by 3"
    )
    leaves = ("parts.created", "parts.sent_sms", "public.other_status", "public.sent_other")
    # The models read the text as the plugin's.
    assert named == [("public", "notifications", leaf, True) for leaf in leaves]

    # A leaf that comes while no loader runs.
    source.execute(made("failed"))
    source.insert(2, "failed")
    source.execute("vacuum full pg_inherits")
    source.execute("vacuum freeze")
    partitioned.must_be_exact()
    held = "select held_since ->> '*' from cdc.logged_table where table_name = 'notifications'"
    start = source.value("select start_lsn from cdc.slot_position")
    assert source.value(held) == start, "no seed is needed"

    # Leaves that are written in the transaction, and in a part of one, that makes them.
    with partitioned.follow("--build") as running:
        source.execute("begin")
        source.execute(made("late"))
        source.insert(2, "late")
        source.execute("savepoint s")
        source.execute(made("lost"))
        source.insert(3, "lost")
        source.execute("commit")
        source.execute("update parts.late set notification_status = 'sent'")
        running.wait_for("has other partitions")
    partitioned.must_be_exact()

    # A TRUNCATE of all leaves is one of the table.
    source.execute("truncate sent_other, notifications")
    source.insert(2)
    partitioned.must_be_exact()
    assert sum(live for live, _ in partitioned.model().values()) == 2


def test_no_position_is_stored_before_a_streamed_leaf_is_visible(
    make_pipeline: MakePipeline, spare: Cluster
) -> None:
    pipeline = partition(make_pipeline(spare))
    pipeline.set_up()
    hidden = pipeline.source.reconnect()
    pid = hidden.value("select pg_backend_pid()")
    hidden.execute("set synchronous_commit = 'on'")
    hidden.execute("begin;" + made("failed"))
    hidden.insert(3, "failed")
    thread = threading.Thread(target=hidden.execute, args=("commit",), daemon=True)
    wait = "select wait_event = 'SyncRep' from pg_stat_activity where pid = %s"
    # Only a session that asks for it waits for the standby, which never comes.
    local = {"synchronous_commit": "local", "synchronous_standby_names": "missing"}
    with configured(spare, **local), pipeline.follow() as running:
        thread.start()
        wait_until(lambda: pipeline.source.value(wait, pid), "the commit waits")
        # The new leaf's transaction locks its own table.
        pipeline.source.execute(
            "insert into notification_history (id, service_id, template_id, notification_type, "
            "notification_status, created_at) select gen_random_uuid(), service_id, id, 'email', "
            "'sent', now() from templates limit 1"
        )
        with pytest.raises(AssertionError, match="something is stored"):
            wait_until(lambda: pipeline.staged() > 0, "something is stored", seconds=1)
        pipeline.source.execute("select pg_cancel_backend(%s)", pid)
        running.wait_for("has other partitions")
        pipeline.wait_for_staged(4)
    thread.join(timeout=30)
    hidden.connection.close()
    pipeline.must_be_exact()
