"""From which position on the log holds what a fact needs: SQL says it, once for all."""

from __future__ import annotations

import json

from tests.dbt.staged import SLOT, Warehouse

HELD = {"a": {"x": "0/10", "y": "0/20", "old": "0/99", "*": "0/30"}, "b": {"x": "0/40"}, "c": {}}


CASES: list[tuple[dict[str, list[str]], str | None]] = [
    ({"s.a": ["x"]}, "0/10"),
    ({"s.a": ["x", "y"]}, "0/20"),
    ({"s.a": ["x", "unknown"]}, "0/30"),
    ({"s.a": ["old"]}, "0/30"),
    ({"s.a": []}, "0/10"),
    ({"s.a": ["x"], "s.b": ["x"]}, "0/40"),
    ({"s.a": ["x"], "s.b": []}, "0/40"),
    ({"s.b": ["x", "y"]}, None),
    ({"s.a": ["x"], "s.b": ["y"]}, None),
    ({"s.c": ["x"]}, None),
    ({"s.a": ["x"], "s.c": []}, None),
    ({"s.unknown": ["x"]}, None),
    ({"another.a": ["x"]}, None),
    ({"s.unknown": []}, None),
    ({"s.a": ["x"], "s.unknown": []}, None),
]


def test_a_fact_is_held_since_all_that_it_needs_is(warehouse: Warehouse) -> None:
    for name, held in HELD.items():
        warehouse.execute(
            "insert into cdc.logged_table (slot_name, table_schema, table_name, held_since) "
            "values (%s, 's', %s, %s)",
            SLOT,
            name,
            json.dumps(held),
        )
    for needed, position in CASES:
        found = warehouse.execute("select cdc.held_since(%s, %s)", SLOT, json.dumps(needed))
        assert found == [(position,)], needed
        other = warehouse.execute("select cdc.held_since('another', %s)", json.dumps(needed))
        assert other == [(None,)], needed
