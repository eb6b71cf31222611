from __future__ import annotations

import pytest

from waltally import lsn
from waltally.followed import ALL, Followed, begun_anew, renewed, since
from waltally.tables import Table

A, B = Table("public", "a"), Table("public", "b")


@pytest.mark.parametrize(
    ("columns", "position"),
    [
        (("x",), 0x10),
        (("x", "y"), 0x20),
        (("x", "unknown"), 0x30),
        (("old",), 0x30),
        ((), 0x10),
    ],
)
def test_a_table_is_followed_since_all_its_columns_are(
    columns: tuple[str, ...], position: int
) -> None:
    followed = {str(A): {"x": "0/10", "y": "0/20", "old": "0/99", ALL: "0/30"}}
    assert since(followed, A, columns) == position


def test_what_is_not_followed_has_no_position() -> None:
    followed = {str(A): {"x": "0/10"}}
    assert since(followed, A, ("x", "y")) is None
    assert since(followed, B, ("x",)) is None
    assert since(followed, B, ()) is None


def test_what_stays_keeps_its_position_and_what_goes_begins_anew() -> None:
    before: Followed = {}
    for kept, position in (
        ({A: None}, 0x10),
        ({A: None, B: None}, 0x20),
        ({A: frozenset({"x"})}, 0x30),
        ({A: frozenset({"x", "y"}), B: frozenset({"z"})}, 0x40),
        ({A: None, B: None}, 0x50),
    ):
        before = renewed(before, kept, position)
    assert before == {
        str(A): {"x": "0/10", "y": "0/40", ALL: "0/50"},
        str(B): {"z": "0/40", ALL: "0/50"},
    }


def test_a_column_named_like_all_columns_is_never_taken_for_them() -> None:
    found = renewed({}, {A: frozenset({"*", "x"})}, 0x10)
    assert since(found, A, ("y",)) is None
    assert since(found, A, ("x",)) == lsn.parse("0/10")


def test_a_table_may_begin_anew_at_a_position_of_its_own() -> None:
    before = {str(A): {ALL: "0/10"}, str(B): {ALL: "0/10"}}
    found = renewed(before, {A: None, B: frozenset({"x"})}, 0x20, {A: 0x30, B: 0x31})
    assert found == {str(A): {ALL: "0/30"}, str(B): {"x": "0/31"}}


def test_what_begins_anew_keeps_a_later_position_and_other_tables_theirs() -> None:
    followed = {str(A): {"x": "0/10", ALL: "0/30"}, str(B): {ALL: "0/10"}}
    begun = begun_anew(followed, {A: 0x20, Table("public", "unknown"): 0x20})
    assert begun == {str(A): {"x": "0/20", ALL: "0/30"}, str(B): {ALL: "0/10"}}
