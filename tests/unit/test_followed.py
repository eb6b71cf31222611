from __future__ import annotations

from loader.staging.logged_tables import ALL, Followed, begun_anew, renewed
from waltally.tables import Table

A, B = Table("public", "a"), Table("public", "b")


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
        A: {"x": 0x10, "y": 0x40, ALL: 0x50},
        B: {"z": 0x40, ALL: 0x50},
    }


def test_a_column_named_like_all_columns_is_never_taken_for_them() -> None:
    assert renewed({}, {A: frozenset({"*", "x"})}, 0x10) == {A: {"x": 0x10}}


def test_a_column_that_began_later_than_the_session_keeps_its_position() -> None:
    before = {A: {"x": 0x30}}
    assert renewed(before, {A: frozenset({"x", "y"})}, 0x20) == {A: {"x": 0x30, "y": 0x20}}


def test_a_table_may_begin_anew_at_a_position_of_its_own() -> None:
    before = {A: {ALL: 0x10}, B: {ALL: 0x10}}
    found = renewed(before, {A: None, B: frozenset({"x"})}, 0x20, {A: 0x30, B: 0x31})
    assert found == {A: {ALL: 0x30}, B: {"x": 0x31}}


def test_what_begins_anew_keeps_a_later_position_and_other_tables_theirs() -> None:
    followed = {A: {"x": 0x10, ALL: 0x30}, B: {ALL: 0x10}}
    begun = begun_anew(followed, {A: 0x20, Table("public", "unknown"): 0x20})
    assert begun == {A: {"x": 0x20, ALL: 0x30}, B: {ALL: 0x10}}
