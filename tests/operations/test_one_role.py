"""The one role of docs/roles.md is enough everywhere; ops/roles.sql, for a seed of partitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from psycopg2 import errors

from testkit.commands import LOADER, ROOT, RunningLoader
from testkit.databases import paste
from testkit.models import Models
from tests.operations.roles import ACCESS, SEED_JOB, own_server
from tests.partitions.conftest import LEAVES, PARTITIONED, full

ROLE = "waltally"


def block() -> str:
    found = re.search(
        r"One role for all of it works too:\n\n```sql\n(.*?)```",
        (ROOT / "docs" / "roles.md").read_text(),
        re.DOTALL,
    )
    assert found
    return found[1]


@pytest.mark.slow
def test_one_role_does_all_of_it(tmp_path: Path) -> None:
    with own_server(tmp_path, ACCESS, name="notify") as made:
        paste(made.cluster, made.database.name, block())
        for table in ("services", "templates"):
            with made.connect(ROLE).cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(f"select id from {table}")
        made.must(ROLE, str(LOADER), "setup", "--timeout", "30")
        made.must(ROLE, str(LOADER), "setup", "--check")
        made.job(SEED_JOB, ROLE)
        made.database.insert(3)
        made.must(ROLE, str(LOADER), "run", "--once")
        built = made.must(ROLE, "dbt", "build")
        assert re.search(r"PASS=\d+ WARN=0 ERROR=0 SKIP=0", built), built
        made.must(ROLE, str(LOADER), "status")
        made.must(ROLE, str(LOADER), "prune")
        with RunningLoader(made.environment(ROLE), tmp_path / "run.log", "--build") as running:
            running.wait_for("following the slot")
            made.database.insert(2, "sent")
            made.job("spark-submit spark/audit.py", ROLE)
            # A second seed has the changes applied, as it adds what the fact has written down.
            made.job(SEED_JOB, ROLE)
            running.end()
        made.must(ROLE, "dbt", "build")
        assert made.differences() == []
        assert made.database.value("select sum(count) from analytics.ft_service_stats") == 9
        made.must(ROLE, str(LOADER), "teardown", "--purge", "--yes")


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
