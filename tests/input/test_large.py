"""Large values and rows pass, or the loader says which row cannot."""

from __future__ import annotations

import re
from threading import Event

import pytest

from loader.capture.events import RunState
from loader.capture.follow import follow
from loader.setup import setup
from testkit.commands import wait_until
from testkit.following import peak_memory
from testkit.pipeline import Pipeline
from testkit.source import set_identity
from waltally.errors import RowTooLarge

RANDOM_TEXT = "(select string_agg(md5(random()::text), '') from generate_series(1, {0} / 32))"


def test_an_unchanged_large_column_changes_no_count(pipeline: Pipeline) -> None:
    set_identity(pipeline.dsns[0], "covering")
    pipeline.set_up()
    pipeline.source.insert(3)
    pipeline.source.execute(
        f"update notifications set personalisation = {RANDOM_TEXT.format(100_000)}"
    )
    pipeline.source.execute("update notifications set notification_status = 'sent'")
    pipeline.source.execute("update notifications set sent_at = now()")
    pipeline.source.execute("update notifications set id = gen_random_uuid()")
    pipeline.must_be_exact()
    absent = "select count(*) from cdc.change_log where payload not like '%\"personalisation\"%'"
    assert pipeline.source.value(absent) == 9


def insert_large(pipeline: Pipeline, size: int) -> None:
    pipeline.source.execute(
        'insert into notifications ("to", service_id, template_id, notification_type, '
        "notification_status, personalisation) select 'x', service_id, id, 'sms', 'sent', "
        f"repeat('0123456789', {size // 10}) from templates limit 1"
    )


def test_large_values_pass_in_bounded_memory_and_one_takes_three_times_its_size(
    pipeline: Pipeline,
) -> None:
    """A loader that was killed for its memory would be killed at that row again."""
    pipeline.set_up()
    with pipeline.source.follow() as running:
        pipeline.source.insert(1)
        wait_until(lambda: pipeline.source.staged() == 1, "it has stored something")
        idle = peak_memory(running)
        for _ in range(10):
            insert_large(pipeline, 10_000_000)
        pipeline.source.execute("update notifications set notification_status = 'delivered'")
        wait_until(lambda: pipeline.source.staged() == 22, "all of it is stored")
        # One value waits in the queue, one is in COPY's hands; one is being read, in three copies.
        assert peak_memory(running) - idle < 96 * 1024
        insert_large(pipeline, 60_000_000)
        wait_until(lambda: pipeline.source.staged() == 23, "all of it is stored")
        # libpq's buffer, its copy and ours; it is sent in parts.
        assert (peak_memory(running) - idle) * 1024 < 3.5 * 60_000_000
    pipeline.must_be_exact()


@pytest.mark.slow
def test_the_row_is_named_and_a_new_slot_passes_it(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(2)
    pipeline.stage()
    pipeline.source.execute(
        "begin; update notifications set notification_status = 'sent';"
        # Each quote is two characters in JSON.
        "update notifications set personalisation = repeat('\"', 550000000) "
        "where id = (select id from notifications order by id limit 1); commit"
    )
    pipeline.source.insert(1)
    with pytest.raises(RowTooLarge) as caught:
        pipeline.stage()
    said = str(caught.value)
    assert re.search(
        r"change 3 of transaction \d+, which commits at [0-9A-F]+/[0-9A-F]+, "
        r'after a change of "public"."notifications"',
        said,
    ), said
    assert caught.value.exit_code == 43
    assert pipeline.source.staged() == 2
    assert "`loader setup --renew`" in caught.value.remedy
    setup.set_up(pipeline.loader_settings, pipeline.wanted, timeout=30, renew=True)
    pipeline.source.insert(4)
    run_state = RunState()
    follow(pipeline.loader_settings, Event(), run_state, once=True)
    assert run_state.changes == 4
