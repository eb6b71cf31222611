"""The delta rules as properties of the models: any cut of any history gives the same fact."""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.dbt.staged import FACT, START, STEP, Warehouse
from tests.oracle import Group, Outcome, Transaction, outcome
from tests.properties.histories import histories
from waltally import lsn

SLOW = settings(
    max_examples=20 if "WALTALLY_ALL_CASES" in os.environ else 4,
    deadline=None,
    # Each example takes a second: what fails is shown as it is.
    phases=[Phase.generate],
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def found(warehouse: Warehouse) -> Outcome:
    """What the models made of the history."""
    counts = warehouse.counts()
    live = Counter[Group]({group: live for group, (live, _) in counts.items()})
    archived = Counter[Group]({group: archived for group, (_, archived) in counts.items()})
    rejected = warehouse.execute(
        "select ((commit_lsn - %s::pg_lsn) / %s)::int, ordinal::int "
        "from analytics.rejected_changes order by 1, 2",
        lsn.show(START),
        STEP,
    )
    return Outcome(live, archived, rejected)


def contents(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Every row that is not all zero, with its id."""
    return warehouse.execute(
        "select * from analytics.ft_service_stats "
        "where live_count <> 0 or archived_count <> 0 order by id"
    )


@SLOW
@given(history=histories, cuts=st.lists(st.integers(1, 11), max_size=3))
def test_any_cut_of_any_history_gives_the_same_fact(
    warehouse: Warehouse, history: list[Transaction], cuts: list[int]
) -> None:
    warehouse.empty()
    places = sorted({0, *(cut for cut in cuts if cut < len(history)), len(history)})
    for start, end in pairwise(places):
        warehouse.append(*history[start:end])
        warehouse.build(*FACT)
        assert found(warehouse) == outcome(history[:end])
    in_batches = contents(warehouse)
    warehouse.build("--full-refresh", *FACT)
    assert found(warehouse) == outcome(history)
    assert contents(warehouse) == in_batches


@settings(SLOW, max_examples=3)
@given(history=histories)
def test_building_again_changes_nothing(warehouse: Warehouse, history: list[Transaction]) -> None:
    warehouse.empty()
    warehouse.append(*history)
    warehouse.build(*FACT)
    before = warehouse.execute("select xmin::text, * from analytics.ft_service_stats")
    warehouse.build(*FACT)
    assert before == warehouse.execute("select xmin::text, * from analytics.ft_service_stats")
