"""Random queries: each is refused, or kept equal to itself. More of them by
`python -m tests.queries.generator` and `tests.queries.model_generator`."""

from __future__ import annotations

from collections import Counter

import pytest

from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries import model_generator
from tests.queries.generator import Trial
from tests.queries.lab import Lab
from tests.queries.model_generator import KEYS, ModelTrial
from tests.queries.rows_lab import RowsLab


@pytest.mark.parametrize("seed", range(4))
def test_each_query_is_refused_or_kept_equal_to_itself(lab: Lab, seed: int) -> None:
    lab.execute("drop schema lab_models cascade; create schema lab_models; truncate lab.change")
    outcomes = list(Trial(lab, 1000 + seed).outcomes(75))
    assert [outcome for outcome in outcomes if outcome.kind == "wrong"] == []
    assert Counter(outcome.kind for outcome in outcomes)["kept"] > 10


@pytest.mark.parametrize("seed", range(2))
def test_each_query_over_models_is_refused_or_kept_equal_to_itself(
    cluster: Cluster, seed: int
) -> None:
    lab = RowsLab(cluster.dsn(empty_database(cluster).name), model_generator.TABLES)
    for table in KEYS:
        lab.follow(table, has_old_rows=True)
    trial = ModelTrial(lab, 2000 + seed)
    outcomes = list(trial.outcomes(90))
    lab.connection.close()
    assert [outcome for outcome in outcomes if outcome.kind == "wrong"] == []
    assert Counter(outcome.kind for outcome in outcomes)["kept"] > 20
    assert trial.followed > trial.filled
