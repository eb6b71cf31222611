"""A name that comes to mean another table or column is never passed over in silence."""

from __future__ import annotations

import logging
import re

import pytest

from loader.setup import setup
from testkit.databases import ARCHIVE
from testkit.pipeline import Pipeline
from tests.partitions.conftest import waits_for_a_seed
from waltally.errors import TableReplaced

REPLACEMENTS = {
    "renamed and made again": "alter table notifications rename to former;"
    "create table notifications (like former including all);"
    "alter table notifications replica identity full",
    "a dimension made again": "alter table notifications drop notification_status;"
    "alter table notifications add notification_status text",
    "two columns swapped": "alter table notifications rename service_id to other;"
    "alter table notifications rename template_id to service_id;"
    "alter table notifications rename other to template_id",
}


HARMLESS = (
    "alter table notifications rename notification_status to status;"
    "alter table notifications rename status to notification_status;"
    "alter table notifications add extra int default 7, alter billable_units type bigint",
    "create temp table own () inherits (notifications)",
    *("truncate notification_history", "vacuum full notifications"),
    *("vacuum freeze pg_type", "vacuum full pg_type"),
)
"""What changes no meaning, and is not reported."""
AWAY = {
    "away": "alter table notifications rename to away; {} alter table away rename to notifications",
    "s.notifications": "create schema s; alter table notifications set schema s; {} "
    "alter table s.notifications set schema public",
}
"""By the name that it has for a while."""


BEFORE = "the counts are still of what was there before\nTry: see that `loader run` runs"


def problems(pipeline: Pipeline) -> list[str]:
    # The tables were empty at setup: there is nothing to seed, and some tests need no model.
    usual = re.compile("has no baseline|has not installed")
    return [each["kind"] for each in pipeline.findings() if not usual.search(each["message"])]


def report(pipeline: Pipeline, caplog: pytest.LogCaptureFixture, warning: str) -> None:
    """Fail where one of the commands does not report what was replaced, or the model goes on."""
    assert problems(pipeline) == ["TableReplaced"]
    found = setup.check(pipeline.loader_settings, pipeline.wanted)
    assert [type(each) for each in found.problems] == [TableReplaced]
    with pytest.raises(TableReplaced):
        pipeline.set_up()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "loader"):
        pipeline.stage()
    assert warning in caplog.text
    assert "does not hold everything" in pipeline.waits()


def test_a_replaced_table_or_column_is_reported_by_every_command_until_it_is_counted_again(
    pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline.set_up()
    for statement in HARMLESS:
        pipeline.source.execute(statement)
    for ddl in REPLACEMENTS.values():
        pipeline.source.insert(3)
        pipeline.catch_up()
        assert problems(pipeline) == []
        pipeline.source.execute(ddl)
        report(pipeline, caplog, BEFORE)
        pipeline.seed()
        pipeline.must_be_exact()
        pipeline.source.execute("drop table if exists former cascade")
    for away, ddl in AWAY.items():
        pipeline.source.insert(3)
        pipeline.must_be_exact()
        pipeline.source.execute(ddl.format(f"update {away} set notification_status = 'lost';"))
        report(pipeline, caplog, BEFORE)
        pipeline.seed()
        pipeline.must_be_exact()
    assert problems(pipeline) == []
    # Not as another table, which a seed would count.
    pipeline.source.execute("alter table notifications rename to former")
    pipeline.source.execute("create view notifications as select * from former")
    assert problems(pipeline) == ["TableUnfit"]


def test_the_rows_of_a_former_archive_go_by_the_remedy_that_is_printed(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(3)
    pipeline.source.execute(ARCHIVE)
    pipeline.must_be_exact()
    ddl = REPLACEMENTS["renamed and made again"]
    pipeline.source.execute(ddl.replace("notifications", "notification_history"))
    pipeline.source.execute(f"{ARCHIVE} limit 1")
    (remedy,) = [each["remedy"] for each in pipeline.findings() if each["kind"] == "TableReplaced"]
    with pipeline.follow():
        pipeline.spark_job(remedy.split("`")[3])
    pipeline.must_be_exact()
    assert problems(pipeline) == []


RUNNING = {
    **REPLACEMENTS,
    "unlogged": "alter table notifications set unlogged",
    "with an heir": "create table heir () inherits (notifications)",
}


def test_a_running_loader_lets_the_models_of_another_table_wait(pipeline: Pipeline) -> None:
    pipeline.begin()
    for case, ddl in RUNNING.items():
        before = pipeline.model()
        with pipeline.follow() as running:
            pipeline.source.execute(ddl)
            running.wait_for("following the slot", 2)
            pipeline.source.insert(2)
        pipeline.source.execute(
            "drop table if exists former, heir; alter table notifications set logged"
        )
        pipeline.stage()
        waits_for_a_seed(pipeline, before, case)
