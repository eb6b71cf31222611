"""A seed waits until a running loader follows what the facts need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from common.errors import SnapshotTooOld
from counting import checks

from loader.staging.records import SlotPosition
from tests.spark.support import Source
from waltally import locks


@contextmanager
def a_loader(source: Source) -> Iterator[None]:
    """A session that holds the lock of one that follows the slot."""
    with source.connect() as connection:
        key = locks.key("loader", "cdc", source.slot)
        connection.execute("select pg_advisory_lock(%s)", (key,))
        yield


def follow(source: Source, *columns: str) -> None:
    """Write what a loader's new session writes."""
    with source.connect() as connection:
        connection.execute(
            "update cdc.logged_table set held_since = (select jsonb_object_agg(each, position_lsn)"
            " from unnest(%s::text[]) as each) from cdc.slot_position",
            (list(columns),),
        )


@pytest.mark.parametrize("columns", [(), ("service_id", "template_id", "notification_type")])
def test_a_seed_that_a_running_loader_is_not_ready_for_times_out(
    source: Source, columns: tuple[str, ...]
) -> None:
    source.fill()
    source.previous_seed()
    if columns:
        follow(source, *columns)
    with a_loader(source):
        code, _, err = source.seed("--timeout", "0.5")
        assert code == 41, err
        assert "the log does not hold public.notifications, public.notification_history yet" in err
        assert source.has_previous_seed()
        follow(source, "*")
        code, _, err = source.seed()
        assert code == 0, err
    assert source.baseline() == source.recount()


def test_where_nobody_follows_the_next_session_begins_before_the_snapshot(source: Source) -> None:
    source.fill()
    code, _, err = source.seed()
    assert code == 0, err
    assert source.baseline() == source.recount()


def test_each_table_must_be_in_the_log_from_before_the_snapshot() -> None:
    slot = SlotPosition("s", "1", "d", 5, 30)
    checks.log_holds(10, slot, {"public.a": 10, "public.b": 10})
    with pytest.raises(SnapshotTooOld):
        checks.log_holds(9, slot, {"public.a": 10, "public.b": 10})
    with pytest.raises(SnapshotTooOld, match=r"changes of public\.b in"):
        checks.log_holds(19, slot, {"public.a": 10, "public.b": 20})
    checks.log_holds(20, slot, {"public.a": 10, "public.b": 20})


def test_what_is_not_followed_yet_will_be_from_the_position_on() -> None:
    slot = SlotPosition("s", "1", "d", 5, 30)
    checks.log_holds(30, slot, {"public.a": 10, "public.b": None})
    with pytest.raises(SnapshotTooOld):
        checks.log_holds(29, slot, {"public.a": 10, "public.b": None})
