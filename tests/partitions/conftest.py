"""The application with its tables partitioned, in two schemas and two levels."""

from __future__ import annotations

import pytest

from testkit.pipeline import Pipeline
from testkit.recount import Counts

# A change of status moves a row between leaves, also between schemas. Leaves have other column
# orders and dropped columns, as attached tables do.
PARTITIONED = """
create schema parts;
alter table notifications rename to former;
create table notifications (like former including defaults)
    partition by list (notification_status);
create table parts.created (gone int, like former including defaults);
alter table parts.created drop gone;
alter table notifications attach partition parts.created for values in ('created');
create table parts."Sent, final" partition of notifications for values in ('sent', 'delivered')
    partition by list (notification_type);
create table parts.sent_sms partition of parts."Sent, final" for values in ('sms');
create table sent_other partition of parts."Sent, final" default;
create table other_status partition of notifications default;
drop table former cascade;
alter table notification_history rename to former;
create table notification_history (like former including defaults)
    partition by list (notification_status);
create table history_sent partition of notification_history for values in ('sent');
create table history_rest partition of notification_history default;
drop table former cascade;
"""
LEAVES = (
    *("parts.created", "parts.sent_sms", "sent_other", "other_status"),
    *("history_sent", "history_rest"),
)


def full(leaf: str) -> str:
    """Return the SQL that gives a leaf an identity that carries everything."""
    return f"alter table {leaf} replica identity full;"


def partition(pipeline: Pipeline) -> Pipeline:
    """Partition the tables of an application that is not set up yet."""
    pipeline.source.execute(PARTITIONED + "".join(map(full, LEAVES)))
    return pipeline


@pytest.fixture
def partitioned(pipeline: Pipeline) -> Pipeline:
    """A pipeline of the shipped project; nothing is set up."""
    return partition(pipeline)


def begin(pipeline: Pipeline) -> None:
    """Set up, with rows in more than one leaf that only a seed knows, and changes."""
    pipeline.source.insert(5)
    pipeline.source.insert(3, "sent")
    pipeline.set_up()
    pipeline.source.insert(2)
    pipeline.must_be_exact()


def waits_for_a_seed(pipeline: Pipeline, before: Counts, case: str = "") -> None:
    """Fail where the model does not wait as it was before, or is not right after a seed."""
    assert "does not hold everything" in pipeline.waits(), case
    assert pipeline.model() == before, f"it stays as it was right: {case}"
    assert pipeline.is_said_to_wait(), case
    pipeline.seed()
    pipeline.source.execute("update notifications set notification_status = 'delivered'")
    pipeline.must_be_exact()
    assert not pipeline.is_said_to_wait(), case
