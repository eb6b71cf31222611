"""Leaves come, go and take rows along: all is in the model, or it waits and a seed helps."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from loader.capture import handshake, stream
from loader.capture.events import RunState
from loader.capture.follow import follow
from testkit.commands import wait_until
from testkit.databases import paste
from testkit.fixtures import MakePipeline
from testkit.model import counting
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, configured
from tests.partitions.conftest import begin, full, partition, waits_for_a_seed

PLACE = "create table parts.leaf_{n} partition of notifications for values in ('leaf {n}');" + full(
    "parts.leaf_{n}"
)
FILLED = (
    "create table filled_{n} (like notifications including defaults);"
    + full("filled_{n}")
    + 'insert into filled_{n} ("to", service_id, template_id, notification_type, '
    "notification_status) select 'x', service_id, id, 'email', 'filled {n}' from templates;"
)
ATTACH = "alter table notifications attach partition filled_{n} for values in ('filled {n}')"
RUNNING = {
    "detached and attached": "alter table notifications detach partition parts.leaf_{n};"
    "insert into parts.leaf_{n} select * from parts.leaf_{n};"
    "alter table notifications attach partition parts.leaf_{n} for values in ('leaf {n}')",
    "dropped": "drop table parts.leaf_{n}",
    "renamed": "alter table parts.leaf_{n} rename to was_leaf_{n}",
}
STOPPED = {
    "attached": FILLED + ATTACH,
    "loaded without WAL": f"do $$ begin {FILLED.replace('create', 'create unlogged', 1)}"
    f"alter table filled_{{n}} set logged; {ATTACH}; end $$",
    "renamed as it was made": f"do $$ begin {FILLED.replace('filled_{n}', 'loading_{n}')}"
    f"alter table loading_{{n}} rename to filled_{{n}}; {ATTACH}; end $$",
    "a level detached": 'alter table notifications detach partition parts."Sent, final"',
}
"""What happens while a loader runs, and what happens while it is stopped."""


def execute(pipeline: Pipeline, ddl: str, number: int) -> None:
    """Execute each statement in a transaction of its own, and insert a row."""
    for statement in [ddl] if ddl.startswith("do") else ddl.split(";"):
        pipeline.source.execute(statement.format(n=number))
    pipeline.source.insert(1)


def test_a_model_waits_where_rows_came_or_went_without_changes(partitioned: Pipeline) -> None:
    begin(partitioned)
    source = partitioned.source
    for number, (kind, ddl) in enumerate({**RUNNING, **STOPPED}.items()):
        source.execute(PLACE.format(n=number))
        source.insert(2, f"leaf {number}")
        partitioned.must_be_exact()
        before = partitioned.model()
        if kind in RUNNING:
            with partitioned.follow() as running:
                execute(partitioned, ddl, number)
                running.wait_for("so its models wait")
        else:
            execute(partitioned, ddl, number)
        source.insert(1)
        partitioned.stage()
        waits_for_a_seed(partitioned, before, kind)


def test_a_leaf_that_is_filled_as_it_is_made_needs_no_seed_and_an_unlogged_one_is_refused(
    partitioned: Pipeline,
) -> None:
    begin(partitioned)
    run = partitioned.source.execute
    with partitioned.follow() as running:
        run((FILLED + ATTACH).format(n=1))
        running.wait_for("has other partitions")
    run("drop role if exists partner; create role partner superuser")
    run(f"{FILLED}alter table filled_{{n}} owner to partner;{ATTACH}".format(n=2))
    partitioned.must_be_exact()
    assert not partitioned.is_said_to_wait()
    run(
        "create unlogged table fast partition of notifications for values in ('fast');"
        + full("fast")
    )
    partitioned.source.insert(1)
    partitioned.stage()
    assert "does not hold everything" in partitioned.waits()
    unlogged = "public.fast of public.notifications is not logged"
    run(partitioned.refused_with(17, unlogged, "setup").split("Try: ")[1])
    partitioned.stage()
    partitioned.seed()
    partitioned.must_be_exact()


PARTITION = (
    "begin; alter table notifications rename to was_plain;"
    "create table notifications (like was_plain including defaults)"
    " partition by list (notification_status);"
    "alter table notifications attach partition was_plain default;"
    "create table late partition of notifications for values in ('late');" + full("late") + "commit"
)


def test_a_table_may_become_partitioned_while_the_loader_runs(pipeline: Pipeline) -> None:
    """Its changes then have the names of leaves that the session does not follow."""
    begin(pipeline)
    before = pipeline.model()
    with pipeline.follow() as running:
        pipeline.source.execute(PARTITION)
        running.wait_for("public.notifications is partitioned now")
        pipeline.source.insert(4, "late")
    pipeline.stage()
    waits_for_a_seed(pipeline, before)
    pipeline.source.insert(2, "late")
    pipeline.source.execute("delete from notifications where notification_status = 'delivered'")
    pipeline.must_be_exact()


def test_what_another_loader_notes_after_the_look_and_before_the_start_stays(
    partitioned: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends while this one begins: its rows of the log are known, and its gap too."""
    begin(partitioned)
    before = partitioned.model()

    def other_first(*arguments: Any) -> None:
        monkeypatch.setattr(stream, "start", handshake.start)
        partitioned.source.execute("truncate sent_other")
        partitioned.must("run", "--once")
        handshake.start(*arguments)

    monkeypatch.setattr(stream, "start", other_first)
    partitioned.source.insert(1, "sent")
    follow(partitioned.loader_settings, threading.Event(), RunState(), once=True)
    waits_for_a_seed(partitioned, before)


def test_leaves_that_lack_the_identity_are_one_finding(partitioned: Pipeline) -> None:
    partitioned.source.execute("alter table sent_other replica identity default;"
                               "alter table other_status replica identity nothing")  # fmt: skip
    leaves = "partitions public.sent_other, public.other_status of public.notifications"
    said = partitioned.refused_with(17, leaves, "setup")
    paste(partitioned.source.cluster, partitioned.source.name, said.split("Try: ")[1])
    partitioned.set_up()
    partitioned.source.execute(
        "create table late partition of notifications for values in ('late')"
    )
    with partitioned.follow() as running:
        running.wait_for("The replica identity of the partitions public.late")
        partitioned.source.insert(1, "late")
        partitioned.source.execute("delete from notifications")
    partitioned.catch_up()
    assert len(partitioned.rejected()) == 1
    assert "IdentityTooNarrow" in [found["kind"] for found in partitioned.findings()]


def test_a_partition_is_followed_by_its_own_name_and_not_beside_its_table(
    partitioned: Pipeline,
) -> None:
    source = partitioned.source
    leaf, whole = (counting(name) for name in ("parts.created", "public.notifications"))
    source.declare(ft_leaf=leaf, ft_whole=whole)
    code, said = partitioned.refused("setup")
    assert code == 17
    assert "parts.created is a partition of public.notifications, and both" in said
    source.declare(ft_leaf=leaf)
    partitioned.must("setup")
    source.insert(2)
    source.insert(1, "sent")
    source.execute("update notifications set notification_status = 'sent' where ctid = '(0,1)'")
    partitioned.must("run", "--once")
    logged = (
        "select action, payload::json ->> 'schema', payload::json ->> 'table', "
        "payload::json ->> 'leaf' from cdc.change_log order by commit_lsn, ordinal"
    )
    assert source.execute(logged) == [(action, "parts", "created", None) for action in "IID"]


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

    held = "select held_since ->> '*' from cdc.logged_table where table_name = 'notifications'"
    before = source.value(held)

    # A leaf that comes while no loader runs.
    source.execute(made("failed"))
    source.insert(2, "failed")
    source.execute("vacuum full pg_inherits")
    source.execute("vacuum freeze")
    partitioned.must_be_exact()
    assert source.value(held) == before, "no seed is needed"

    # Leaves that are written in the transaction, and in a part of one, that makes them.
    with partitioned.follow("--build") as running:
        source.execute("begin")
        source.execute(made("late"))
        source.insert(2, "late")
        source.execute("savepoint s")
        source.execute(made("lost"))
        source.insert(3, "lost")
        source.execute("commit")
        late = "notification_status = 'late'"
        source.execute(f"update notifications set notification_status = 'lost' where {late}")
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


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("savepoint", ["", "savepoint s;"])
def test_changes_of_a_table_that_had_a_new_leaf_s_name_before_are_not_taken_for_the_leaf_s(
    partitioned: Pipeline, savepoint: str, is_killed: bool
) -> None:
    begin(partitioned)
    before = partitioned.model()
    execute(partitioned, FILLED.rstrip(";"), 1)
    partitioned.source.execute(
        f"begin; {savepoint} drop table filled_1; create table filled_1 partition of notifications"
        f" for values in ('filled 1'); {full('filled_1')} commit"
    )
    if is_killed:  # what it saw of the leaves is stored, and no change is
        with partitioned.start("--once", WALTALLY_KILL_AT="after-followed") as running:
            assert running.process.wait() == -signal.SIGKILL
    partitioned.source.insert(1, "filled 1")
    partitioned.stage()
    waits_for_a_seed(partitioned, before)
