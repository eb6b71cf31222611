"""The first day's commands, and the audit's when it differs, with the real jobs under traffic."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from testkit.databases import Database
from testkit.notify_traffic import Traffic
from testkit.servers import Cluster
from testkit.spark_jobs import FAST_START
from tests.acceptance.pipeline import Pipeline
from tests.runbook.procedure import Block, blocks
from tests.runbook.test_text import DAY_ONE


def first_day() -> list[str]:
    (text,) = re.findall(r"^```sh\n(.*?)^```$", DAY_ONE, re.MULTILINE | re.DOTALL)
    return Block("sh", text).commands


@pytest.mark.slow
def test_the_first_day_ends_with_audited_counts_and_a_wrong_one_is_mended(
    cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    pipeline = Pipeline(cluster, database, tmp_path, "covering", 5)
    # The loader builds before the seed. The fact keeps what is purged between the two, and the
    # recount knows only of the purges since the seed.
    purges = {"history_purge": 0, "purge_and_archive_again": 0}
    pipeline.traffic = Traffic(
        pipeline.dsn, sessions=2, rate=15, identity="covering", weights=purges
    )
    # Spark's Java as one wants it for seconds of work.
    pipeline.environment["JAVA_TOOL_OPTIONS"] = FAST_START
    loader: subprocess.Popen[str] | None = None
    pipeline.traffic.start()
    try:
        for command in first_day():
            if command == "systemctl start waltally-loader":
                loader = pipeline.start("loader", "run", "--build")
            else:
                pipeline.run(*command.split())
        assert loader is not None
        assert loader.poll() is None
        database.execute(
            "update analytics.ft_service_stats set live_count = live_count + 1, count = count + 1 "
            "where id = (select id from analytics.ft_service_stats order by id limit 1)"
        )
        rebuild, audit = blocks("The audit differs")[0].commands
        assert audit == first_day()[-1], "it has run above; the recount below asks as much"
        pipeline.run(*rebuild.split())
        loader.send_signal(signal.SIGTERM)
        _, said = loader.communicate(timeout=120)
        assert loader.returncode == 0, said
    finally:
        pipeline.traffic.stop()
        if loader is not None and loader.poll() is None:
            loader.kill()
            loader.communicate()
    pipeline.run("loader", "run", "--once", "--build")
    assert pipeline.differences() == []
