"""Which tables wait after DDL that changed rows."""

from __future__ import annotations

import pytest

from loader.capture.altered_tables import altered_tables
from loader.capture.batches import Batcher
from loader.capture.position import Position
from loader.capture.wal2json import Altered, Begin, Change, Commit, Message
from loader.staging.logged_tables import Member, Root
from loader.staging.records import Registration
from testkit.facts import notify
from waltally.tables import Table

LIVE, HISTORY = Table("public", "notifications"), Table("public", "notification_history")
REGISTERED = Registration(1, (notify(),), {})
ROOTS = {
    LIVE: Root(
        9,
        (
            Member(1, 0, "", "1", "1", "p", "p", LIVE),
            Member(2, 1, "2", "2", "2", "r", "p", Table("parts", "new")),
        ),
    )
}


@pytest.mark.parametrize(
    ("note", "tables"),
    [
        (Altered("public", "notifications", None), {LIVE}),
        (Altered("public", "notifications", frozenset({"service_id", "id"})), {LIVE}),
        (Altered("public", "notifications", frozenset({"id", "to"})), set()),
        (Altered("public", "notifications", frozenset()), set()),
        (Altered("public", "services", None), set()),
        (Altered("other", "notifications", None), set()),
        (Altered("parts", "new", frozenset({"service_id"})), {LIVE}),
        (Altered("parts", None, None), {LIVE}),
        (Altered("public", None, None), {LIVE, HISTORY}),
    ],
)
def test_a_table_waits_for_what_a_fact_needs_of_it(note: Altered, tables: set[Table]) -> None:
    found = altered_tables([(note, 0x10)], REGISTERED, ROOTS)
    assert set(found) == tables
    assert {start for start, _ in found.values()} <= {0x11}


def test_the_last_of_a_table_s_positions_counts() -> None:
    notes = [(Altered("public", "notifications", None), position) for position in (0x10, 0x20)]
    assert altered_tables(notes, REGISTERED, {})[LIVE][0] == 0x21


def test_the_remedy_forgets_purged_rows_only_where_a_fact_has_such() -> None:
    found = altered_tables([(Altered("public", None, None), 0x10)], REGISTERED, {})
    assert "seed.py`, then" in found[LIVE][1].sentence
    assert "seed.py`, then" in found[HISTORY][1].sentence


def accepted(*messages: Message) -> list[tuple[Altered, int]]:
    batcher = Batcher("s", Position(100))
    for message in messages:
        batcher.accept(message)
    found = batcher.start_next().altered
    assert not batcher.batch.altered
    return found


NOTE = Altered("s", "t", None)
CHANGE: Change = b"{}"


def test_a_batch_has_the_notes_of_its_transactions_with_their_positions() -> None:
    messages = (Begin(200, 210, 1, 0), NOTE, CHANGE, NOTE, Commit(210))
    assert accepted(*messages) == [(NOTE, 200), (NOTE, 200)]


def test_notes_that_are_stored_already_or_in_no_transaction_are_left_out() -> None:
    assert accepted(Begin(90, 100, 1, 0), NOTE, Commit(100), NOTE) == []
