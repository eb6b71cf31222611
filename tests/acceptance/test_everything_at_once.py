"""All that may run at the same time, at the same time."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from testkit import recount
from testkit.commands import wait_until
from testkit.databases import Database
from testkit.notify_traffic import Traffic, inhabit
from testkit.system import System


@pytest.mark.slow
def test_everything_at_once_under_traffic(database: Database, tmp_path: Path) -> None:
    """A loader builds while a seed, full refreshes and a setup run."""
    system = System(database, tmp_path)
    system.has_processes = True
    # As a user has it: `loader setup` parses the project that is shipped.
    system.given["LOADER_MANIFEST"] = ""
    inhabit(system.dsns[0], "full", 11)
    traffic = Traffic(system.dsns[0], seed=11, rate=60, truncates=True)
    system.do("loader", "setup")
    system.do("dbt", "run")
    traffic.start()
    with system.start("--build") as loader:
        model = "select to_regclass('analytics.ft_service_stats') is not null"
        ended = loader.process.poll
        try:
            wait_until(lambda: database.value(model) or ended() is not None, "the model is there")
            seed = system.spawn("spark-submit", "spark/seed.py")
            build = system.spawn("dbt", "run", "--full-refresh")
            system.do("loader", "setup")
            output, _ = build.communicate(timeout=300)
            assert build.returncode == 0 or "the baseline was replaced during" in output
            _, errors = seed.communicate(timeout=300)
            assert seed.returncode == 0, errors
            system.do("dbt", "run", "--full-refresh")
            traffic.wait(Random(11).randint(50, 400))
            assert ended() is None
        finally:
            traffic.stop()
        loader.end()
    system.do("loader", "run", "--once", "--build")
    assert recount.differences(system.dsns[0], slot=system.slot) == []
