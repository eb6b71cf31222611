from collections import Counter
from typing import Any

from tests.oracle import DIMENSIONS, Outcome, outcome, replay

SERVICE, TEMPLATE = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "ab")
A = (SERVICE, TEMPLATE, "sms", "created")
B = (SERVICE, TEMPLATE, "sms", "delivered")


def row(*values: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in zip(DIMENSIONS, values, strict=False)]


def change(action: str, table: str = "notifications", **parts: Any) -> dict[str, Any]:
    return {"action": action, "schema": "public", "table": table, **parts}


def test_insert_counts_one() -> None:
    assert replay([change("I", columns=row(*A))]) == {A: (1, 0)}


def test_update_moves_the_row() -> None:
    changes = [change("U", columns=row(*B), identity=row(*A))]
    assert replay(changes, {A: (1, 0)}) == {B: (1, 0)}


def test_delete_of_a_live_row_counts() -> None:
    assert replay([change("D", identity=row(*A))], {A: (2, 0)}) == {A: (1, 0)}


def test_delete_of_an_archived_row_does_not_count() -> None:
    changes = [change("D", "notification_history", identity=row(*A))]
    assert replay(changes, {A: (0, 2)}) == {A: (0, 2)}


def test_delete_of_an_archived_row_is_written_down_or_rejected() -> None:
    purge = change("D", "notification_history", identity=row(*A))
    unknown = change("D", "notification_history", identity=row(*A[:3]))
    found = outcome([[purge, unknown]])
    assert (found.purged, found.rejected) == ({A: 1}, [(0, 2)])


def test_history_never_seeded_goes_below_zero() -> None:
    changes = [change("U", "notification_history", columns=row(*B), identity=row(*A))]
    assert replay(changes) == {A: (0, -1), B: (0, 1)}


def test_truncate_empties_its_own_part_at_its_place() -> None:
    changes = [change("I", columns=row(*A)), change("T"), change("I", columns=row(*B))]
    assert replay(changes, {A: (5, 3)}) == {A: (0, 3), B: (1, 0)}


def test_row_without_a_dimension_is_left_out_on_both_sides() -> None:
    null = row(SERVICE, None, "sms", "created")
    assert replay([change("I", columns=null), change("D", identity=null)]) == {}


def test_update_from_null_counts_the_new_row_only() -> None:
    null = row(SERVICE, None, "sms", "created")
    assert replay([change("U", columns=row(*A), identity=null)]) == {A: (1, 0)}


def test_new_row_takes_an_unchanged_large_value_from_the_old() -> None:
    changes = [change("U", columns=row(*A[:3]), identity=row(*A))]
    assert replay(changes, {A: (1, 0)}) == {A: (1, 0)}


def test_old_row_that_lacks_a_dimension_is_rejected_and_counts_nothing() -> None:
    narrow = [{"name": "notification_status", "value": "created"}]
    history = [
        [change("U", columns=row(*B), identity=narrow)],
        [change("I", columns=row(*A)), change("D", identity=narrow)],
    ]
    assert outcome(history) == Outcome(live=Counter({A: 1}), rejected=[(0, 1), (1, 2)])


def test_value_that_its_type_does_not_take_is_rejected() -> None:
    no_uuid, long = row("no uuid", *A[1:]), row(*A[:3], "é" * 501)
    history = [[change("I", columns=no_uuid), change("I", columns=long)]]
    assert outcome(history).rejected == [(0, 1), (0, 2)]


def test_what_is_no_change_is_rejected() -> None:
    assert outcome([["no json"], [change("U", columns=row(*A))]]).rejected == [(0, 1), (1, 1)]


def test_other_tables_and_transaction_marks_change_nothing() -> None:
    changes = [{"action": "B"}, change("I", "unrelated", columns=row(*A)), {"action": "C"}]
    assert replay(changes) == {}
