"""Any cut of any history gives what the oracle says, for facts of every kind of declaration."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dbt.staged import SLOT, START, STEP, Warehouse
from tests.fact_oracle import Group, Totals
from tests.properties.declared import histories
from tests.properties.test_deltas import SLOW, apply
from waltally import lsn
from waltally.facts import Fact
from waltally.tables import quoted

FACTS = ("ft_orders", "ft_hours", "ft_kinds", "ft_clock")


def found(warehouse: Warehouse, fact: Fact) -> dict[Group, list[Decimal]]:
    """The measures of each group that the fact holds; groups of nothing left out."""
    dimensions = ", ".join(f"{quoted(each.name)}::text" for each in fact.dimensions)
    measures = ", ".join(f"{quoted(each.name)}::numeric" for each in fact.measures)
    width = len(fact.dimensions)
    rows = warehouse.execute(f"select {dimensions}, {measures} from {fact.relation}")
    return {tuple(row[:width]): list(row[width:]) for row in rows if any(row[width:])}


def rejected(warehouse: Warehouse, fact: Fact) -> list[Any]:
    return warehouse.execute(
        "select ((commit_lsn - %s::pg_lsn) / %s)::int, ordinal::int "
        "from analytics.rejected_changes where fact = %s order by 1, 2",
        lsn.show(START),
        STEP,
        str(fact.relation),
    )


@pytest.mark.parametrize("name", FACTS)
@SLOW
@given(data=st.data())
def test_any_cut_of_any_history_gives_what_the_oracle_says(
    warehouse: Warehouse, name: str, data: st.DataObject
) -> None:
    (fact,) = (each for each in warehouse.project.facts() if each.name == name)
    history = data.draw(histories(fact))
    cuts = data.draw(st.lists(st.integers(1, 11), max_size=2))
    warehouse.empty()
    wanted = Totals(fact, SLOT)
    places = sorted({0, *(cut for cut in cuts if cut < len(history)), len(history)})
    for start, end in pairwise(places):
        warehouse.append(*history[start:end])
        apply(warehouse, data)
        wanted.read(history[start:end], start)
        assert found(warehouse, fact) == wanted.groups()
        assert rejected(warehouse, fact) == wanted.rejected
    ids = f"select id from {fact.relation} order by id"
    before = warehouse.execute(ids)
    warehouse.refresh(name)
    assert found(warehouse, fact) == wanted.groups()
    assert rejected(warehouse, fact) == wanted.rejected
    assert warehouse.execute(ids) == before
