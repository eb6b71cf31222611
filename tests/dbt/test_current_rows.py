"""The rows of a table as they are, whatever happens to them and to their keys."""

from __future__ import annotations

import random
from typing import Any

from tests.dbt.staged import SLOT, START, Warehouse
from tests.dbt.workload import change

MODEL = "current_projects"
PROJECTS = "time.projects"
LONG = "x" * 5000


def rows(warehouse: Warehouse) -> list[Any]:
    return warehouse.execute('select id, "Name", notes from analytics.current_projects order by 1')


def project(key: int, **changed: Any) -> dict[str, Any]:
    return {"id": key, "Name": f"project {key}", "notes": LONG, **changed}


def without_notes(key: int, **changed: Any) -> dict[str, Any]:
    """An image that lacks the unchanged value that is stored out of line."""
    return {name: value for name, value in project(key, **changed).items() if name != "notes"}


def test_rows_start_from_the_baseline(warehouse: Warehouse) -> None:
    seeded = {(SLOT, "1", "before", LONG): [1], (SLOT, "2", None, None): [1]}
    warehouse.seed_fact(MODEL, {"rows": seeded})
    update = change("U", PROJECTS, {"id": 1}, without_notes(1))
    warehouse.append([update, change("D", PROJECTS, {"id": 2})])
    warehouse.build(MODEL)
    assert rows(warehouse) == [(1, "project 1", LONG)]
    # From PostgreSQL 18 on NOT NULL is a constraint too.
    key = (
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where conrelid = 'analytics.current_projects'::regclass and contype <> 'n'"
    )
    assert warehouse.value(key) == "PRIMARY KEY (office, id)"


def test_what_cannot_be_applied_is_listed(warehouse: Warehouse) -> None:
    warehouse.append(
        [
            change("I", PROJECTS, new=project(1)),
            change("I", PROJECTS, new=project(2, id="two")),
            change("I", PROJECTS, new=without_notes(3)),
            change("U", PROJECTS, {"id": 9}, without_notes(9)),
            change("U", PROJECTS, {"Name": "x"}, project(1)),
            change("I", PROJECTS, new=project(4, id=None)),
            change("U", PROJECTS, {"id": 8}, project(8, notes="whole")),
            {"action": "Z"},
        ]
    )
    for refresh in (False, True):
        warehouse.build(MODEL, refresh=refresh)
        assert rows(warehouse) == [(1, "project 1", LONG), (8, "project 8", "whole")]
        assert warehouse.execute(
            "select ordinal, reason from analytics.rejected_changes order by 1"
        ) == [
            (2, "the value of id is not of type integer"),
            (3, "the row has no column notes"),
            (4, "the row was not known, and an unchanged value is not in the change"),
            (5, "the replica identity does not carry the old id"),
            (8, "the action is not known"),
        ]
        assert warehouse.value("select left_out from cdc.model_watermark") == {"rows": 1}


def test_a_row_that_the_model_cannot_hold_is_gone_until_it_is_corrected(
    warehouse: Warehouse,
) -> None:
    bad, worse = project(1, Name="x", id="one"), project(1, id="two")
    listed = "select count(*) from analytics.rejected_changes"
    warehouse.append([change("I", PROJECTS, new=project(1)), change("I", PROJECTS, new=project(2))])
    for transaction, expected, rejected in (
        ([change("U", PROJECTS, {"id": 1}, bad)], [2], 1),
        ([change("U", PROJECTS, {"id": "one"}, worse)], [2], 2),
        ([change("U", PROJECTS, {"id": "two"}, project(1))], [1, 2], 2),
        (
            [
                change("U", PROJECTS, {"id": 1}, bad),
                change("U", PROJECTS, {"id": "one"}, project(3)),
                change("U", PROJECTS, {"id": 2}, bad),
                change("D", PROJECTS, {"id": "one"}),
            ],
            [3],
            4,
        ),
    ):
        warehouse.append(transaction)
        warehouse.build(MODEL)
        assert [key for key, *_ in rows(warehouse)] == expected
        assert warehouse.value(listed) == rejected
    warehouse.build(MODEL, refresh=True)
    assert (rows(warehouse), warehouse.value(listed)) == ([(3, "project 3", LONG)], 4)


def test_two_rows_of_one_key_are_refused(warehouse: Warehouse) -> None:
    """A key that is checked at commit only may be there twice in between."""
    warehouse.append([change("I", PROJECTS, new=project(key)) for key in (1, 2)])
    warehouse.build(MODEL)
    before = rows(warehouse)
    swapped = [change("U", PROJECTS, {"id": key}, project(3 - key, Name="x")) for key in (1, 2)]
    warehouse.append(swapped)
    said = warehouse.refused(MODEL)
    assert "two rows of current_projects have the same key" in said
    assert "Declare a key that no two rows share" in said.split("HINT")[1]
    assert rows(warehouse) == before


def test_any_history_gives_the_rows(warehouse: Warehouse) -> None:
    chance = random.Random(2)
    there: dict[int, dict[str, Any]] = {}
    warehouse.seed_fact(MODEL, {}, at=START)
    for size in (1, 40, 3, 60):
        transactions = []
        for _ in range(size):
            kind = chance.choice("IIIUUUKDT" if chance.random() < 0.1 else "IIIUUUKD")
            key, free = chance.randint(1, 12), [n for n in range(1, 13) if n not in there]
            if kind == "T":
                there.clear()
                transactions.append([change("T", PROJECTS)])
            elif kind == "I" and free:
                key = chance.choice(free)
                there[key] = project(key, Name=chance.choice([None, "a", "b"]))
                transactions.append([change("I", PROJECTS, new=there[key])])
            elif kind in "UK" and key in there:
                old = there.pop(key)
                target = chance.choice([*free, key]) if kind == "K" else key
                there[target] = {**old, "id": target, "Name": str(chance.random())}
                image = dict(there[target])
                if chance.random() < 0.5:
                    del image["notes"]
                else:
                    image["notes"] = there[target]["notes"] = str(chance.random())
                transactions.append([change("U", PROJECTS, {"id": key}, image)])
            elif kind == "D" and key in there:
                del there[key]
                transactions.append([change("D", PROJECTS, {"id": key})])
        warehouse.append(*transactions)
        warehouse.build(MODEL)
        expected = [(key, each["Name"], each["notes"]) for key, each in sorted(there.items())]
        assert rows(warehouse) == expected
    warehouse.build(MODEL, refresh=True)
    assert rows(warehouse) == expected
