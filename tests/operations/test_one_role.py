"""The one role of docs/roles.md is enough everywhere; ops/roles.sql, for a seed of partitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from psycopg2 import errors

from testkit.commands import ROOT
from testkit.databases import paste
from tests.operations.roles import ACCESS, SEED_JOB, SPARK_ROLE, grant_rights, own_server
from tests.partitions.conftest import LEAVES, PARTITIONED, full

ROLE = "waltally"


def block() -> str:
    found = re.search(
        r"## One role\n\n```sql\n(.*?)```",
        (ROOT / "docs" / "roles.md").read_text(),
        re.DOTALL,
    )
    assert found
    return found[1]


@pytest.mark.slow
def test_one_role_does_all_of_it(tmp_path: Path) -> None:
    with own_server(tmp_path, ACCESS, name="notify") as made:
        paste(made.source.cluster, made.source.name, block())
        made = made.by(ROLE)
        for table in ("services", "templates"):
            with made.session(ROLE).cursor() as cursor, pytest.raises(errors.InsufficientPrivilege):
                cursor.execute(f"select id from {table}")
        made.do("loader", "setup", "--timeout", "30")
        made.do("loader", "setup", "--check")
        made.spark_job(SEED_JOB)
        made.source.insert(3)
        made.do("loader", "run", "--once")
        built = made.do("dbt", "build")
        assert re.search(r"PASS=\d+ WARN=0 ERROR=0 SKIP=0", built), built
        made.do("loader", "status")
        made.do("loader", "prune")
        with made.follow("--build"):
            made.source.insert(2, "sent")
            made.spark_job("spark-submit spark/audit.py")
            # A second seed has the changes applied, as it adds what the model has written down.
            made.spark_job(SEED_JOB)
        made.do("dbt", "build")
        assert made.differences() == []
        assert made.source.value("select sum(count) from analytics.ft_service_stats") == 9
        made.do("loader", "teardown", "--drop-data", "--yes")


@pytest.mark.slow
def test_a_seed_of_partitions_runs_as_its_role(tmp_path: Path) -> None:
    with own_server(tmp_path, ACCESS) as made:
        made.source.execute(PARTITIONED + "".join(map(full, LEAVES)))
        made.source.insert(3)
        grant_rights(made)
        made.do("loader", "setup")
        grant_rights(made)
        made.by(SPARK_ROLE).spark_job(SEED_JOB)
        counted = (
            "select sum(measures[1]) from cdc.baseline_group where part = 'public.notifications'"
        )
        assert made.source.value(counted) == 3
