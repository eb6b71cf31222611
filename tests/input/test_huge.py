"""A row whose JSON passes 1 GB: the loader says which, and the documented way goes on."""

from __future__ import annotations

import re
from threading import Event

import pytest

from loader.capture.events import RunState
from loader.capture.follow import follow
from loader.setup import setup
from testkit.pipeline import Pipeline
from waltally.errors import RowTooLarge


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
