"""The delta rules as properties of the models: any cut of any history gives the same fact."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testkit.facts import notify
from tests.dbt.staged import SLOT, START, STEP, Warehouse
from tests.fact_oracle import Totals, Transaction
from tests.properties.conftest import FACTS
from tests.properties.histories import histories
from waltally import lsn

SLOW = settings(
    max_examples=300 if "WALTALLY_ALL_CASES" in os.environ else 40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def found(warehouse: Warehouse) -> tuple[Any, ...]:
    """The groups that have rows, the rejected changes, and the purged rows by group."""
    counts = {group: list(both) for group, both in warehouse.counts().items() if any(both)}
    rejected = warehouse.execute(
        "select ((commit_lsn - %s::pg_lsn) / %s)::int, ordinal::int "
        "from analytics.rejected_changes where fact = 'analytics.ft_service_stats' order by 1, 2",
        lsn.show(START),
        STEP,
    )
    purged = warehouse.execute(
        "select dimensions, array[sum(measures[1]), sum(measures[2])] from cdc.archived_delete "
        "where model_name = 'analytics.ft_service_stats' and part = 'archived' group by 1"
    )
    return counts, rejected, {tuple(group): measures for group, measures in purged}


def wanted(history: list[Transaction]) -> tuple[Any, ...]:
    totals = Totals(notify(), SLOT)
    totals.read(history)
    return totals.groups(), totals.rejected, totals.purged.get("archived", {})


def contents(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Every row that is not all zero, with its id."""
    return warehouse.execute(
        "select * from analytics.ft_service_stats "
        "where live_count <> 0 or archived_count <> 0 order by id"
    )


def apply(warehouse: Warehouse, data: st.DataObject) -> None:
    """Apply what is staged: at once or in slices, and maybe with a model behind the others."""
    warehouse.slice(data.draw(st.sampled_from([200_000, 1, 3]), "changes in a slice"))
    if late := data.draw(st.sampled_from([None, *FACTS]), "model that is late"):
        hold = "update cdc.installed_model set error = %s, retry_at = %s where fact_name = %s"
        warehouse.execute(hold, "it is held", "infinity", late)
        warehouse.apply()
        warehouse.execute(hold, "it was held", None, late)
    warehouse.apply()


@SLOW
@given(data=st.data())
def test_any_cut_of_any_history_gives_the_same_fact(
    warehouse: Warehouse, data: st.DataObject
) -> None:
    history = data.draw(histories)
    cuts = data.draw(st.lists(st.integers(1, 11), max_size=3))
    warehouse.empty()
    places = sorted({0, *(cut for cut in cuts if cut < len(history)), len(history)})
    for start, end in pairwise(places):
        warehouse.append(*history[start:end])
        apply(warehouse, data)
        assert found(warehouse) == wanted(history[:end])
    in_batches = contents(warehouse)
    warehouse.refresh("ft_service_stats")
    assert found(warehouse) == wanted(history)
    assert contents(warehouse) == in_batches


@settings(SLOW, max_examples=3)
@given(history=histories)
def test_applying_again_changes_nothing(warehouse: Warehouse, history: list[Transaction]) -> None:
    warehouse.empty()
    warehouse.append(*history)
    warehouse.apply()
    before = warehouse.execute("select xmin::text, * from analytics.ft_service_stats")
    warehouse.apply()
    assert before == warehouse.execute("select xmin::text, * from analytics.ft_service_stats")
