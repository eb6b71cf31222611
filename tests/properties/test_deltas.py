"""The delta rules as properties of the models: any cut of any history gives the same fact."""

from __future__ import annotations

import os
from itertools import pairwise

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.oracle import Transaction, outcome
from tests.properties.histories import histories
from tests.properties.warehouse import Warehouse

SLOW = settings(
    max_examples=20 if "WALTALLY_ALL_CASES" in os.environ else 8,
    deadline=None,
    # Each example takes a second: what fails is shown as it is.
    phases=[Phase.generate],
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SLOW
@given(history=histories, cuts=st.lists(st.integers(1, 11), max_size=3))
def test_any_cut_of_any_history_gives_the_same_fact(
    warehouse: Warehouse, history: list[Transaction], cuts: list[int]
) -> None:
    warehouse.empty()
    places = sorted({0, *(cut for cut in cuts if cut < len(history)), len(history)})
    for start, end in pairwise(places):
        warehouse.append(history[start:end])
        warehouse.bench.build()
        assert warehouse.outcome() == outcome(history[:end])
    in_batches = warehouse.contents()
    warehouse.refresh()
    assert warehouse.outcome() == outcome(history)
    assert warehouse.contents() == in_batches


@settings(SLOW, max_examples=3)
@given(history=histories)
def test_building_again_changes_nothing(warehouse: Warehouse, history: list[Transaction]) -> None:
    warehouse.empty()
    warehouse.append(history)
    warehouse.bench.build()
    before = warehouse.bench.execute("select xmin::text, * from analytics.ft_service_stats")
    warehouse.bench.build()
    assert before == warehouse.bench.execute("select xmin::text, * from analytics.ft_service_stats")
