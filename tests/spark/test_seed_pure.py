from __future__ import annotations

import pytest
from waltally_jobs.common.command import Settings
from waltally_jobs.evaluation.ranges import Leaf, cut, plan
from waltally_jobs.evaluation.visibility import Visibility, unfinished

from waltally.tables import Table


@pytest.mark.parametrize(
    ("imported", "live", "expected"),
    [
        ("10:12:", "12:12:", []),
        ("10:12:", "11:12:11", [11]),
        ("10:12:11", "11:12:11", []),
        ("10:12:", "11:11:", [11]),
        ("10:12:11", "10:11:10", [10]),
        # A slot's snapshot: xmin above xmax, and all below xmin taken for finished.
        ("13:12:", "12:12:", [12]),
        ("13:12:", "13:13:", []),
        ("10:12:", "12:14:12,13", []),
    ],
)
def test_only_what_the_snapshot_takes_for_finished_is_waited_for(
    imported: str, live: str, expected: list[int]
) -> None:
    assert unfinished(Visibility.parse(imported), Visibility.parse(live)) == expected


def test_ranges_cover_every_page_once_and_the_last_is_open() -> None:
    assert cut(Leaf(Table("a", "b"), 0), 2) == ["true"]
    assert cut(Leaf(Table("a", "b"), 2), 2) == ["true"]
    assert cut(Leaf(Table("a", "b"), 3), 2) == [
        "ctid >= '(0,0)'::tid and ctid < '(2,0)'::tid",
        "ctid >= '(2,0)'::tid",
    ]


def test_a_leaf_is_read_by_itself_for_its_table() -> None:
    [(leaves, part)] = plan([Leaf(Table("Odd", 'le"af'), 3, identity="1 2")], 4, "1 as x")
    assert leaves == [('"Odd"."le""af"', "1 2")]
    assert part == 'select 1 as x from only "Odd"."le""af" where true'


def test_small_leaves_are_read_together_and_each_once() -> None:
    leaves = [Leaf(Table("a", f"leaf_{number}"), number % 3) for number in range(1000)]
    leaves.insert(500, Leaf(Table("a", "large"), 9000))
    parts = plan(leaves, 8192, "1 as x")
    assert len(parts) == 18
    text = " ".join(query for _, query in parts)
    assert [text.count(f"{leaf.table.quoted} where") for leaf in leaves].count(1) == 1000
    middling = [Leaf(Table("a", "b"), 1500), Leaf(Table("a", "c"), 1500)]
    assert len(plan(middling, 8192, "1")) == 2, "they are read side by side"


def test_connection_strings_are_not_shown() -> None:
    assert "secret" not in repr(Settings("password=secret", "s", "cdc", "password=secret"))
