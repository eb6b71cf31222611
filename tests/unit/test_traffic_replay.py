from typing import Any

import pytest

from demo.mix import mix
from demo.replay import replay

A = ("s1", "t1", "sms", "created")
B = ("s1", "t1", "sms", "delivered")
NAMES = ("service_id", "template_id", "notification_type", "notification_status")


def row(*values: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in zip(NAMES, values, strict=False)]


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


def test_history_never_seeded_goes_below_zero() -> None:
    changes = [change("U", "notification_history", columns=row(*B), identity=row(*A))]
    assert replay(changes) == {A: (0, -1), B: (0, 1)}


def test_truncate_empties_its_own_part_at_its_place() -> None:
    changes = [change("I", columns=row(*A)), change("T"), change("I", columns=row(*B))]
    assert replay(changes, {A: (5, 3)}) == {A: (0, 3), B: (1, 0)}


def test_row_without_a_dimension_is_left_out_on_both_sides() -> None:
    null = row("s1", None, "sms", "created")
    assert replay([change("I", columns=null), change("D", identity=null)]) == {}


def test_update_from_null_counts_the_new_row_only() -> None:
    null = row("s1", None, "sms", "created")
    assert replay([change("U", columns=row(*A), identity=null)]) == {A: (1, 0)}


def test_old_row_of_an_update_takes_what_it_lacks_from_the_new() -> None:
    narrow = [{"name": "notification_status", "value": "created"}]
    changes = [change("U", columns=row(*B), identity=narrow)]
    assert replay(changes, {A: (1, 0)}) == {B: (1, 0)}


def test_new_row_takes_an_unchanged_large_value_from_the_old() -> None:
    changes = [change("U", columns=row(*A[:3]), identity=row(*A))]
    assert replay(changes, {A: (1, 0)}) == {A: (1, 0)}


def test_delete_that_cannot_be_attributed_is_left_out() -> None:
    narrow = [{"name": "notification_status", "value": "created"}]
    assert replay([change("D", identity=narrow)], {A: (1, 0)}) == {A: (1, 0)}


def test_other_tables_and_transaction_marks_change_nothing() -> None:
    changes = [{"action": "B"}, change("I", "unrelated", columns=row(*A)), {"action": "C"}]
    assert replay(changes) == {}


def test_covering_identity_gets_no_nulls() -> None:
    extra = {kind.__name__ for kind in mix("full")} - {kind.__name__ for kind in mix("covering")}
    assert extra == {"null_dimension", "history_null_dimension"}


def test_truncates_are_off_unless_asked_for() -> None:
    assert not [kind for kind in mix() if kind.__name__.startswith("truncate")]


def test_weight_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind of change is called typo"):
        mix(weights={"typo": 1})
