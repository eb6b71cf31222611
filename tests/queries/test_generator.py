"""Random queries: each is refused, or kept equal to itself. More of them by
`python -m tests.queries.generator` and `tests.queries.model_generator`."""

from __future__ import annotations

from collections import Counter

import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries import model_generator
from tests.queries.generator import FactTrial
from tests.queries.lab import Lab


@pytest.mark.parametrize("seed", range(4))
def test_each_query_is_refused_or_kept_equal_to_itself(lab: Lab, seed: int) -> None:
    outcomes = list(FactTrial(lab, 1000 + seed).outcomes(75))
    assert [outcome for outcome in outcomes if outcome.kind == "wrong"] == []
    assert Counter(outcome.kind for outcome in outcomes)["kept"] > 10


@pytest.mark.parametrize("seed", range(2))
def test_each_query_over_models_is_refused_or_kept_equal_to_itself(
    cluster: Cluster, seed: int
) -> None:
    trial = model_generator.begin(cluster.dsn(empty_database(cluster).name), 2000 + seed)
    outcomes = list(trial.outcomes(90))
    trial.lab.connection.close()
    assert [outcome for outcome in outcomes if outcome.kind == "wrong"] == []
    assert Counter(outcome.kind for outcome in outcomes)["kept"] > 20
    assert trial.followed > trial.filled
