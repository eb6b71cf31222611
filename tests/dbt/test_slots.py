"""Two slots feed one fact: no step of one touches rows of the other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dbt.staged import SLOT, START, Warehouse
from tests.dbt.test_facts import change

OTHER = "another_slot"
MODELS = ("--select", "ft_hours", "current_projects", "rejected_changes")
ENTRIES, PROJECTS = ("time", "entries"), ("time", "projects")


@pytest.fixture
def offices(warehouse: Warehouse) -> Warehouse:
    """A second slot, registered for the facts of both."""
    warehouse.add_slot(OTHER)
    both = [
        fact for fact in warehouse.project.facts() if fact.name in ("ft_hours", "current_projects")
    ]
    warehouse.register(*both, slot=OTHER)
    return warehouse


class Office:
    """What one slot sends and builds."""

    def __init__(self, warehouse: Warehouse, slot: str, patch: pytest.MonkeyPatch) -> None:
        self.warehouse = warehouse
        self.slot = slot
        self._patch = patch

    def build(self, *transactions: list[Any], words: tuple[str, ...] = ()) -> None:
        if transactions:
            self.warehouse.append(*transactions, slot=self.slot)
        self._patch.setenv("LOADER_SLOT", self.slot)
        self.warehouse.build(*MODELS, *words)

    def rows(self) -> list[Any]:
        """The stored rows of this slot."""
        return [
            self.warehouse.execute(
                f"select xmin::text, * from analytics.{table} where office = %s order by 3, 4",
                self.slot,
            )
            for table in ("ft_hours", "current_projects")
        ]

    def hours(self) -> list[Any]:
        return self.warehouse.execute(
            "select hours from analytics.ft_hours where office = %s and hours <> 0", self.slot
        )


def entry(hours: float) -> dict[str, Any]:
    return {"project": 1, "at": "2026-07-01 00:00:00", "hours": hours}


def project(name: str) -> dict[str, Any]:
    return {"id": 1, "Name": name, "notes": None}


def test_each_slot_has_rows_of_its_own(offices: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Office(offices, slot, monkeypatch) for slot in (SLOT, OTHER))
    for office, hours, name in ((first, 2.5, "a"), (second, 4.0, "b")):
        office.build(
            [
                change("I", ENTRIES, new=entry(hours)),
                change("I", PROJECTS, new=project(name)),
                {"action": "Z"},
            ]
        )
    assert [len(rows) for rows in first.rows()] == [1, 1]
    untouched = first.rows()
    listed = "select count(*) from analytics.rejected_changes where slot_name = %s"
    assert offices.execute(listed, SLOT) == [(2,)]

    second.build([change("T", ENTRIES), change("T", PROJECTS)])
    assert second.hours() == []
    assert second.rows()[1] == []
    second.build([change("I", ENTRIES, new=entry(1)), change("I", PROJECTS, new=project("c"))])
    second.build(words=("--full-refresh",))
    assert second.hours() == [(1,)]
    offices.seed_fact(
        "ft_hours", {"entries": {(OTHER, "1", "2026-07-01"): [9, 0, 0]}}, START, OTHER
    )
    offices.seed_fact("current_projects", {"rows": {(OTHER, "8", "x", None): [1]}}, START, OTHER)
    second.build()
    assert second.hours() == [(1,)], "the TRUNCATE came after the baseline"
    assert [row[3] for row in second.rows()[1]] == ["c"]
    offices.execute("delete from cdc.model_watermark where slot_name = %s", OTHER)
    second.build()

    assert first.rows() == untouched
    assert offices.execute(listed, SLOT) == [(2,)]
    first.build([change("U", PROJECTS, project("a"), project("d"))])
    assert [row[3] for row in first.rows()[1]] == ["d"]
    assert second.hours() == [(1,)]
