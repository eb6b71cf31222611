"""A random history of each example: every model equals a recount, again and again.

It has baselines in the middle of the traffic and a kill -9 of the loaders.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import example as examples
from loader.applying.applier import apply_once
from testkit import comparison
from testkit.commands import ROOT, RunningLoader, profiles, run_dbt
from testkit.databases import empty_database
from testkit.servers import Cluster
from testkit.system import System
from testkit.traffic import Sessions

RATE = 50
"""Transactions per second of each session: enough for every kind of change to meet every step."""


@cache
def project_of(name: str) -> Path:
    """Copy an example's dbt project, whose package is this repository, once per test process."""
    project = Path(tempfile.mkdtemp()) / name
    left = shutil.ignore_patterns("dbt_packages", "package-lock.yml", "target", "logs", "*.py")
    shutil.copytree(examples.load(name).project, project, ignore=left)
    (project / "packages.yml").write_text(yaml.safe_dump({"packages": [{"local": str(ROOT)}]}))
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    done = run_dbt(
        ("deps", "--project-dir", str(project)), {**os.environ, **profiles(project), **nowhere}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return project


class ExamplePipeline:
    """The databases of an example, its dbt project, and the commands on both."""

    def __init__(self, name: str, cluster: Cluster, home: Path, stack: ExitStack) -> None:
        example, project = examples.load(name), project_of(name)
        self.recounts = {each.model: each for each in example.recounts}
        """What each of the models must hold."""
        # Each history has the same names: with others dbt would parse all models again.
        names = (*example.slots, "warehouse") if example.has_warehouse else ("warehouse",)
        made = [stack.enter_context(empty_database(cluster, each)) for each in names]
        for slot, database in zip(example.slots, made, strict=False):
            database.slot = slot
        *sources, self.warehouse = made
        self._systems = [
            System(source, project, self.warehouse) for source in sources or [self.warehouse]
        ]
        self._stack, self._has_spark_models = stack, example.has_spark_models
        self._since: dict[str, str] = {}
        self._loaders: list[RunningLoader] = []
        self.traffic: list[Sessions[Any]] = []
        for number, system in enumerate(self._systems, 1):
            system.project = project
            manifest = str(project / "target" / "manifest.json")
            system.given = {"LOADER_MANIFEST": manifest, "TMPDIR": str(home)}
            dsn = system.dsns[0]
            example.create(dsn)
            example.fill(dsn, 1500, number)
            self.traffic.append(example.traffic(dsn, seed=number, rate=RATE, truncates=True))

    def run(self, program: str, *arguments: str) -> None:
        """Run a command for each source, to its end; fail the test where it fails."""
        for system in self._systems:
            system.do(program, *arguments)

    def follow(self) -> None:
        """Let a loader follow each source; one that does so is killed, whatever it is at."""
        for each in self._loaders:
            each.kill()
        self._loaders = [self._stack.enter_context(each.follow()) for each in self._systems]

    def seed(self) -> None:
        """Make the baselines of all models."""
        with ExitStack() as calm:
            for traffic in self.traffic:
                calm.enter_context(traffic.without_truncates())
            for system in self._systems:
                system.spark_job("spark-submit spark/seed.py")
        baseline = "select min(snapshot_lsn)::text from cdc.baseline where model_name = %s"
        for name in self.recounts:
            # From here on a model remembers purged rows, also over later baselines.
            self._since.setdefault(name, self.warehouse.value(baseline, name))

    def build(self) -> None:
        """Apply what is committed."""
        for system in self._systems:
            system.wait_for_log()
            apply_once(system.loader_settings)
            if self._has_spark_models:
                system.spark_job("spark-submit spark/apply.py --once")
                # A roll-up of what is built now for the first time is filled.
                apply_once(system.loader_settings)

    def write(self) -> None:
        """Wait until the traffic has written some more on each source; it goes on."""
        for traffic in self.traffic:
            traffic.wait(60)

    def must_be_exact(self) -> None:
        """Let the traffic pause, apply what it has written and compare; then it goes on."""
        for traffic in self.traffic:
            traffic.stop()
        self.build()
        sources = {system.slot: system.dsns[0] for system in self._systems}
        for name, recount in self.recounts.items():
            since = self._since.get(recount.purges_since or name)
            warehouse = self._systems[0].dsns[1]
            assert comparison.differences(recount, sources, warehouse, since=since) == []
        for traffic in self.traffic:
            traffic.start()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", examples.names())
def test_every_model_equals_a_recount(name: str, cluster: Cluster, tmp_path: Path) -> None:
    with ExitStack() as stack:
        pipeline = ExamplePipeline(name, cluster, tmp_path, stack)
        # A slot that is made amid TRUNCATEs may be one that the server cannot decode (protocol.py).
        pipeline.run("dbt", "--quiet", "compile")
        pipeline.run("loader", "setup")
        pipeline.run("dbt", "run")
        for traffic in pipeline.traffic:
            stack.enter_context(traffic)
        pipeline.follow()
        for step in (pipeline.seed, pipeline.follow) * 2:
            pipeline.write()
            step()
            pipeline.write()
            pipeline.must_be_exact()
        # Every model starts from its baseline again, and dbt tests all.
        pipeline.run("dbt", "build", "--full-refresh")
        pipeline.must_be_exact()
