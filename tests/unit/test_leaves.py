"""What a look at the catalog says of the leaves of a partitioned table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loader.staging.logged_tables import Judged, Member, Root, from_row, judge, to_row, unfinished
from waltally.tables import Table

ROOT = Member(1, 0, "", "10", "10", "p", "p", Table("public", "r"))
OLD = Member(2, 1, "20", "11", "11", "r", "p", Table("public", "old"))
NEW = Member(3, 1, "30", "30", "30", "r", "p", Table("other", "new"))


def found(*members: Member, at: int = 0x90) -> Root:
    return Root(at, (ROOT, *members))


BEFORE = found(OLD, at=0x50)


def judged(now: Root, present: set[int] | None = None, counts_deletes: bool = True) -> Judged:
    return judge(BEFORE, now, present or set(), counts_deletes, 0x60)


def test_what_is_the_same_is_stored_as_it_was() -> None:
    assert judged(found(OLD)) == Judged(BEFORE, False)
    renamed = replace(ROOT, named="99", table=Table("public", "other"))
    assert not judged(Root(0x90, (renamed, OLD))).begins_anew, "leaves have names of their own"


def test_a_leaf_that_came_empty_changes_nothing() -> None:
    assert judged(found(OLD, NEW)) == Judged(found(OLD, NEW), False)


@pytest.mark.parametrize(
    "other",
    [
        replace(NEW, attached="31"),
        replace(NEW, named="31", table=Table("other", "renamed")),
    ],
)
def test_a_leaf_may_have_brought_rows(other: Member) -> None:
    assert judged(found(OLD, other)).begins_anew
    assert judged(found(OLD, other), counts_deletes=False).begins_anew


@pytest.mark.parametrize(
    "other",
    [
        replace(OLD, attached="21"),
        replace(OLD, named="12"),
        replace(OLD, parent=7),
        replace(OLD, persistence="u"),
        replace(OLD, table=Table("public", "away")),
    ],
)
def test_a_leaf_that_was_away_may_have_other_rows(other: Member) -> None:
    assert judged(found(other)).begins_anew
    assert judged(found(other), counts_deletes=False).begins_anew


def test_a_leaf_that_went_takes_its_rows_along() -> None:
    assert judged(found()).begins_anew
    assert "public.old was detached or dropped" in judged(found()).said


def test_a_dropped_leaf_is_a_purge_where_deletes_are_ignored() -> None:
    gone = judged(found(), counts_deletes=False)
    assert not gone.begins_anew
    assert gone.root.gone == ((OLD.table, 0x90),), "its last changes are still to come"
    assert gone.root.emptied_lsn == 0x90
    later = judge(gone.root, found(at=0xA0), set(), False, 0x91)
    assert later.root.gone == ()
    assert later.root.emptied_lsn == 0x90
    assert judged(found(), {OLD.oid}, False).begins_anew, "it was detached: rows may have come"


def test_an_unknown_or_another_table_begins_anew() -> None:
    assert judge(None, found(OLD), set(), True, 0).begins_anew
    assert judged(Root(0x90, (replace(ROOT, oid=9), OLD))).begins_anew


def test_what_is_stored_is_read_again() -> None:
    root = replace(BEFORE, gone=((NEW.table, 0x70),), emptied_lsn=0x80)
    assert from_row(to_row(root)) == root
    assert from_row(to_row(BEFORE)) == BEFORE


@pytest.mark.parametrize(
    ("snapshot", "xids", "expected"),
    [
        ("5:9:", {5, 8}, False),
        ("5:9:6,7", {5, 8}, False),
        ("5:9:6,7", {5, 7}, True),
        ("5:9:", {9}, True),
        # The ids of the WAL have no epoch.
        (f"{(3 << 32) + 5}:{(3 << 32) + 9}:{(3 << 32) + 7}", {7}, True),
        (f"{(3 << 32) + 5}:{(3 << 32) + 9}:", {8, 0xFFFFFFF0}, False),
        (f"{(3 << 32) - 5}:{(3 << 32) - 2}:", {1}, True),
        ("5:9:", set(), False),
    ],
)
def test_a_streamed_transaction_may_not_be_visible_yet(
    snapshot: str, xids: set[int], expected: bool
) -> None:
    assert unfinished(snapshot, xids) is expected
