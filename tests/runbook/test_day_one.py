"""The first day's commands, and the audit's when it differs, with the real jobs under traffic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit import recount
from testkit.commands import RunningLoader
from testkit.databases import Database
from testkit.notify_traffic import NO_PURGES, Traffic, inhabit
from testkit.spark_jobs import FAST_START
from testkit.system import System
from tests.runbook.procedure import Block, blocks
from tests.runbook.test_text import DAY_ONE


def first_day() -> list[str]:
    (text,) = re.findall(r"^```sh\n(.*?)^```$", DAY_ONE, re.MULTILINE | re.DOTALL)
    return Block("sh", text).commands


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_first_day_ends_with_audited_counts_and_a_wrong_one_is_mended(
    database: Database, tmp_path: Path
) -> None:
    system = System(database, tmp_path)
    system.has_processes = True
    # Spark's Java as one wants it for seconds of work.
    system.given = {"LOADER_MANIFEST": "", "JAVA_TOOL_OPTIONS": FAST_START}
    inhabit(system.dsns[0], "covering", 5)
    # The loader builds before the seed. The model keeps what is purged between the two, and the
    # recount knows only of the purges since the seed.
    traffic = Traffic(system.dsns[0], sessions=2, rate=15, identity="covering", weights=NO_PURGES)
    loader: RunningLoader | None = None
    traffic.start()
    try:
        for command in first_day():
            if command == "systemctl start waltally-loader":
                loader = system.start("--build")
            else:
                system.do(*command.split())
        assert loader is not None
        assert loader.process.poll() is None
        database.execute(
            "update analytics.ft_service_stats set live_count = live_count + 1, count = count + 1 "
            "where id = (select id from analytics.ft_service_stats order by id limit 1)"
        )
        rebuild, audit = blocks("The audit differs")[0].commands
        assert audit == first_day()[-1], "it has run above; the recount below asks as much"
        system.do(*rebuild.split())
        loader.end()
    finally:
        traffic.stop()
        if loader is not None:
            loader.kill()
    system.do("loader", "run", "--once", "--build")
    assert recount.differences(system.dsns[0], slot=system.slot) == []
