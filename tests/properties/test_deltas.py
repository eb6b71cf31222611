"""The delta rules as properties of the models: any cut of any history gives the same facts."""

from __future__ import annotations

import os
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.dbt.staged import SLOT, START, STEP, Warehouse
from tests.fact_oracle import Group, Totals
from tests.properties.conftest import FACTS
from tests.properties.counted import as_rows, counted, groups
from tests.properties.counted import purged as counted_deletes
from tests.properties.declared import histories
from waltally import lsn
from waltally.facts import Fact
from waltally.tables import quoted

SLOW = settings(
    max_examples=150 if "WALTALLY_ALL_CASES" in os.environ else 30,
    deadline=None,
    derandomize=True,
    # `make mutants` needs no smallest history, whose search takes minutes.
    phases=[Phase.generate] if "WALTALLY_IS_MUTANT" in os.environ else tuple(Phase),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


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


def purged(warehouse: Warehouse, fact: Fact) -> dict[str, dict[Group, list[Decimal]]]:
    """What was deleted from each table whose deletes are ignored."""
    sums = ", ".join(f"sum(measures[{n}])" for n in range(1, len(fact.measures) + 1))
    stored: dict[str, dict[Group, list[Decimal]]] = {}
    for part, group, *measures in warehouse.execute(
        f"select part, dimensions, {sums} from cdc.archived_delete where model_name = %s "
        "group by 1, 2",
        str(fact.relation),
    ):
        stored.setdefault(part, {})[tuple(group)] = measures
    return stored


def must_match(warehouse: Warehouse, fact: Fact, wanted: Totals) -> None:
    assert found(warehouse, fact) == wanted.groups()
    assert rejected(warehouse, fact) == wanted.rejected
    assert purged(warehouse, fact) == {part: rows for part, rows in wanted.purged.items() if rows}


def apply(warehouse: Warehouse, data: st.DataObject) -> None:
    """Apply what is staged: at once or in slices, and maybe with a model behind the others."""
    warehouse.slice(data.draw(st.sampled_from([200_000, 1, 3]), "changes in a slice"))
    if late := data.draw(st.sampled_from([None, *FACTS]), "model that is late"):
        hold = "update cdc.installed_model set error = %s, retry_at = %s where fact_name = %s"
        warehouse.execute(hold, "it is held", "infinity", late)
        warehouse.apply()
        warehouse.execute(hold, "it was held", None, late)
    warehouse.apply()


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
        must_match(warehouse, fact, wanted)
    rules = counted(fact, as_rows(history))
    assert groups(rules) == found(warehouse, fact)
    assert counted_deletes(rules) == purged(warehouse, fact)
    ids = f"select id from {fact.relation} order by id"
    before = warehouse.execute(ids)
    warehouse.refresh(name)
    must_match(warehouse, fact, wanted)
    assert warehouse.execute(ids) == before
