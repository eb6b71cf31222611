"""Random queries: each is refused, or kept equal to itself. More of them by tests.queries.generator."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.queries.generator import Trial
from tests.queries.lab import Lab


@pytest.mark.parametrize("seed", range(4))
def test_each_query_is_refused_or_kept_equal_to_itself(lab: Lab, seed: int) -> None:
    lab.execute("drop schema lab_models cascade; create schema lab_models; truncate lab.change")
    outcomes = list(Trial(lab, 1000 + seed).outcomes(75))
    assert [outcome for outcome in outcomes if outcome.kind == "wrong"] == []
    assert Counter(outcome.kind for outcome in outcomes)["kept"] > 10
