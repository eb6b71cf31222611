"""The delta rules of the database and those in Python, written apart: both give the same facts.

What each rule must say is in the cases of dbt_project/integration_tests, and a recount of the rows
judges both in tests/acceptance.
"""

from __future__ import annotations

import os
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from rules.tallies import Tally

from tests.dbt.staged import START, STEP, Warehouse
from tests.properties.conftest import FACTS
from tests.properties.counted import Group, as_rows, counted, groups
from tests.properties.counted import purged as counted_deletes
from tests.properties.declared import random_history
from waltally import lsn
from waltally.facts import Fact
from waltally.tables import quoted

HISTORIES = 200 if "WALTALLY_ALL_CASES" in os.environ else 15
"""Of each fact."""


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


def must_match(warehouse: Warehouse, fact: Fact, wanted: Tally) -> None:
    assert found(warehouse, fact) == groups(wanted)
    assert purged(warehouse, fact) == counted_deletes(wanted)
    listed = [position for position, _ in rejected(warehouse, fact)]
    assert len(listed) == wanted.rejected_count
    if listed:
        assert wanted.first_rejected is not None
        assert (listed[0], listed[-1]) == (wanted.first_rejected[0], wanted.last_rejected_lsn)


def apply(warehouse: Warehouse, dice: Random) -> None:
    """Apply what is staged: at once or in slices, and maybe with a model behind the others."""
    warehouse.slice(dice.choice([200_000, 1, 3]))
    if late := dice.choice([None, *FACTS]):
        hold = "update cdc.installed_model set error = %s, retry_at = %s where fact_name = %s"
        warehouse.execute(hold, "it is held", "infinity", late)
        warehouse.apply()
        warehouse.execute(hold, "it was held", None, late)
    warehouse.apply()


@pytest.mark.larger
@pytest.mark.parametrize("name", FACTS)
def test_any_cut_of_any_history_gives_what_the_rules_in_python_give(
    warehouse: Warehouse, name: str
) -> None:
    (fact,) = (each for each in warehouse.project.facts() if each.name == name)
    for seed in range(HISTORIES):
        dice = Random(seed)
        history = random_history(dice, fact)
        warehouse.empty()
        cuts = {dice.randint(1, len(history)) for _ in range(2)} | {len(history)}
        staged = 0
        for cut in sorted(cuts):
            warehouse.append(*history[staged:cut])
            apply(warehouse, dice)
            must_match(warehouse, fact, counted(fact, as_rows(history[:cut])))
            staged = cut
        # A group of nothing has a row only where it was something after an earlier slice.
        measures = ", ".join(quoted(each.name) for each in fact.measures)
        ids = f"select id from {fact.relation} where 0 <> any(array[{measures}]) order by id"
        before = warehouse.execute(ids)
        warehouse.refresh(name)
        must_match(warehouse, fact, counted(fact, as_rows(history)))
        assert warehouse.execute(ids) == before
