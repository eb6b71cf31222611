"""Where leaves bring or take rows without changes, facts wait; a seed makes them right."""

from __future__ import annotations

import pytest

from loader.monitoring import status
from loader.monitoring.findings import Thresholds
from testkit.databases import paste
from testkit.facts import declare
from testkit.pipeline import Pipeline
from tests.partitions.conftest import full

FILLED = (
    "create table filled (like notifications including defaults);" + full("filled") + "insert into "
    "filled (\"to\", notification_type, notification_status, service_id, template_id) select 'x', "
    "'email', 'failed', service_id, id from templates;"
)
ATTACH = "alter table notifications attach partition filled for values in ('failed')"
WITHOUT_CHANGES = {
    "loaded without WAL": f"do $$ begin {FILLED.replace('create', 'create unlogged', 1)}"
    f"alter table filled set logged; {ATTACH}; end $$",
    "attached": FILLED + ATTACH,
    "detached": "alter table notifications detach partition parts.created",
    "a level detached": 'alter table notifications detach partition parts."Sent, final"',
    "dropped": "drop table parts.created",
    "truncated": "truncate parts.created",
    "a level truncated": 'truncate parts."Sent, final"',
    "renamed": "alter table parts.created rename to was_created",
    "moved to another schema": "alter table sent_other set schema parts",
    "detached and attached": "alter table notifications detach partition parts.created;"
    "insert into parts.created select * from parts.created;"
    "alter table notifications attach partition parts.created for values in ('created')",
}


RUNNING = ("detached and attached", "dropped", "truncated", "renamed")
STOPPED = ("attached", "loaded without WAL")
"""What `make test` tries with a loader that runs, and with one that is stopped."""


def begin(pipeline: Pipeline) -> None:
    """Set up, with rows in every leaf that only a seed knows, and changes."""
    pipeline.source.insert(5)
    pipeline.source.insert(3, "sent")
    pipeline.set_up()
    pipeline.seed()
    pipeline.source.insert(2)
    pipeline.must_be_exact()


@pytest.mark.parametrize(
    ("kind", "is_running"),
    [
        pytest.param(kind, is_running, marks=() if kind in quick else pytest.mark.slow)
        for is_running, quick in ((True, RUNNING), (False, STOPPED))
        for kind in WITHOUT_CHANGES
    ],
)
def test_a_fact_waits_where_rows_came_or_went_without_changes(
    partitioned: Pipeline, kind: str, is_running: bool
) -> None:
    begin(partitioned)
    ddl = WITHOUT_CHANGES[kind]
    before = partitioned.fact()
    # Each in a transaction of its own.
    statements = [ddl] if ddl.startswith("do") else ddl.split(";")
    if is_running:
        with partitioned.follow() as running:
            for each in statements:
                partitioned.source.execute(each)
            partitioned.source.insert(1)
            running.wait_for("so its facts wait")
            running.end()
    else:
        for each in statements:
            partitioned.source.execute(each)
    partitioned.source.insert(1)
    partitioned.stage()
    assert "does not hold everything" in partitioned.waits()
    assert partitioned.fact() == before, "it stays as it was right"
    assert partitioned.is_said_to_wait()
    partitioned.seed()
    partitioned.source.execute("update notifications set notification_status = 'delivered'")
    partitioned.must_be_exact()
    assert not partitioned.is_said_to_wait()


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_a_leaf_that_is_made_filled_and_attached_at_once_needs_no_seed(
    partitioned: Pipeline, is_running: bool
) -> None:
    begin(partitioned)
    if is_running:
        with partitioned.follow() as running:
            partitioned.source.execute(FILLED + ATTACH)
            running.wait_for("has other partitions")
            running.end()
    else:
        partitioned.source.execute(FILLED + ATTACH)
    partitioned.must_be_exact()
    assert not partitioned.is_said_to_wait()


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
    before = pipeline.fact()
    with pipeline.follow() as running:
        pipeline.source.execute(PARTITION)
        running.wait_for("public.notifications is partitioned now")
        pipeline.source.insert(4, "late")
        running.end()
    pipeline.stage()
    assert "does not hold everything" in pipeline.waits()
    assert pipeline.fact() == before, "it stays as it was right"
    pipeline.seed()
    pipeline.source.insert(2, "late")
    pipeline.source.execute("delete from notifications where notification_status = 'created'")
    pipeline.must_be_exact()


def test_a_position_passes_no_leaf_that_is_gone(partitioned: Pipeline) -> None:
    """What is built right after the drop must not count the rows that went."""
    begin(partitioned)
    with partitioned.follow() as running:
        partitioned.source.execute("drop table parts.created")
        gone = partitioned.source.value("select pg_current_wal_insert_lsn()")
        partitioned.source.insert(1, "sent")
        running.wait_for("so its facts wait")
        running.end()
    begins = partitioned.source.value(
        "select held_since ->> '*' from cdc.logged_table where table_name = 'notifications'"
    )
    assert partitioned.source.value("select %s::pg_lsn >= %s", begins, gone)
    applied = "select max(applied_lsn) from cdc.model_watermark"
    assert partitioned.source.value(f"select ({applied}) < %s::pg_lsn", begins)


def test_a_leaf_whose_changes_reach_no_slot_is_refused(partitioned: Pipeline) -> None:
    begin(partitioned)
    partitioned.source.execute(
        "create unlogged table fast partition of notifications for values in ('fast')"
    )
    partitioned.source.insert(1)
    partitioned.stage()
    assert "does not hold everything" in partitioned.waits()
    code, said = partitioned.refused("setup")
    assert code == 17
    assert "public.fast of public.notifications is not logged" in said
    partitioned.source.execute(said.split("Try: ")[1])
    partitioned.stage()
    partitioned.seed()
    partitioned.must_be_exact()


def test_leaves_that_lack_the_identity_are_one_finding(partitioned: Pipeline) -> None:
    partitioned.source.execute("alter table sent_other replica identity default;"
                               "alter table other_status replica identity nothing")  # fmt: skip
    code, said = partitioned.refused("setup")
    assert code == 18
    assert "partitions public.sent_other, public.other_status of public.notifications" in said
    paste(partitioned.source.cluster, partitioned.source.name, said.split("Try: ")[1])
    partitioned.set_up()
    partitioned.source.execute(
        "create table late partition of notifications for values in ('late')"
    )
    with partitioned.follow() as running:
        running.wait_for("The replica identity of the partitions public.late")
        partitioned.source.insert(1, "late")
        partitioned.source.execute("delete from notifications")
        running.end()
    partitioned.catch_up()
    assert len(partitioned.rejected()) == 1
    body = status.report(partitioned.loader_settings, Thresholds(300, 2**40))
    assert "IdentityTooNarrow" in [found["kind"] for found in body["findings"]]


def test_a_partition_is_not_declared_beside_its_table(partitioned: Pipeline) -> None:
    leaf, whole = (declare(name) for name in ("parts.created", "public.notifications"))
    partitioned.source.declare(ft_leaf=leaf, ft_whole=whole)
    code, said = partitioned.refused("setup")
    assert code == 17
    assert "parts.created is a partition of public.notifications, and both" in said
