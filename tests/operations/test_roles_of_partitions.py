"""ops/roles.sql lets Spark read partitions, which it reads by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.models import Models
from tests.operations.roles import ACCESS, SEED_JOB, own_server
from tests.partitions.conftest import LEAVES, PARTITIONED, full


@pytest.mark.slow
def test_a_seed_of_partitions_runs_as_its_role(tmp_path: Path, models: Models) -> None:
    with own_server(tmp_path, ACCESS, models) as made:
        made.database.execute(PARTITIONED + "".join(map(full, LEAVES)))
        made.database.insert(3)
        made.grant()
        made.loader("setup")
        made.grant()
        made.job(SEED_JOB)
        counted = "select sum(measures[1]) from cdc.baseline_group where part = 'live'"
        assert made.database.value(counted) == 3
