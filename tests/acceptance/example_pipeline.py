"""An example on databases of its own, operated by the project's commands while it is written to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from random import Random

import yaml

from demo import example as examples
from demo.example import Example
from loader.applying.applier import apply_once
from testkit import comparison
from testkit.commands import (
    ROOT,
    SHORT_PAUSES,
    RunningLoader,
    profiles,
    run_dbt,
    run_loader,
    wait_until,
)
from testkit.comparison import Difference
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from testkit.spark_jobs import run_job
from tests.acceptance.variations import Model
from waltally.settings import DEFAULT_SCHEMA, Settings

RATE = 50
"""Transactions per second of each session: enough for every kind of change to meet every step."""


class ExamplePipeline:
    """The databases of an example, its dbt project, and the commands on both."""

    def __init__(
        self, name: str, cluster: Cluster, home: Path, seed: int, stack: ExitStack
    ) -> None:
        example = examples.load(name)
        self.random = Random(seed)
        self.recounts = {each.fact: each for each in example.recounts}
        """What each of the facts that are declared now must hold."""
        self.databases = make_databases(example, cluster, stack)
        self.warehouse = self.databases[-1]
        self._home = home
        self._sources = {
            each.slot: cluster.dsn(each.name) for each in self.databases[: len(example.slots)]
        }
        self._warehouse_dsn = cluster.dsn(self.warehouse.name)
        self._since: dict[str, str] = {}
        self._is_installed = False
        self._has_spark_facts = example.has_spark_facts
        self._loaders: list[RunningLoader] = []
        self._starts = 0
        self._project = project_of(name)
        shutil.rmtree(self._project / "models")
        shutil.copytree(example.project / "models", self._project / "models")
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PG")},
            **cluster.environment(self.warehouse.name),
            **profiles(self._project),
            "DBT_PROJECT_DIR": str(self._project),
            "LOADER_MANIFEST": str(self._project / "target" / "manifest.json"),
            "LOADER_TARGET_DSN": self._warehouse_dsn,
            "TMPDIR": str(home),
        }
        for number, dsn in enumerate(self._sources.values()):
            example.create(dsn)
            example.fill(dsn, 1500, seed + 100 * number)
        self.traffic = [
            example.traffic(dsn, seed=seed + 100 * number, rate=RATE, truncates=True)
            for number, dsn in enumerate(self._sources.values())
        ]

    # The commands.

    def of_slot(self, slot: str) -> dict[str, str]:
        """Return the environment of the commands for one of the sources."""
        return {
            **self._environment,
            "LOADER_SLOT": slot,
            "LOADER_SOURCE_DSN": self._sources[slot],
        }

    def run(self, program: str, *arguments: str) -> None:
        """Run loader or dbt for each source, to its end; fail the test where it fails."""
        run = {"dbt": run_dbt, "loader": run_loader}[program]
        for slot in self._sources:
            done = run(arguments, self.of_slot(slot))
            said = f"{slot} {arguments}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
            assert done.returncode == 0, said

    def set_up(self) -> None:
        """Register the facts as the models declare them now."""
        done = run_dbt(("--quiet", "parse"), self._environment)
        assert done.returncode == 0, done.stdout + done.stderr
        self.run("loader", "setup")

    def seed(self, *facts: str) -> None:
        """Make the baselines of these facts, or of all."""
        names = "".join(f" --fact {name}" for name in facts)
        # A fact that keeps purged rows counted is compared with them, up to the seed's position.
        keeps_purged = any("%(purges)s" in each.query for each in self.recounts.values())
        with self.loaders() if keeps_purged and not self._loaders else nullcontext():
            for slot in self._sources:
                run_job(f"spark-submit spark/seed.py{names}", self.of_slot(slot))
        for name in facts or tuple(self.recounts):
            # From here on a fact remembers purged rows, also over later baselines.
            self._since.setdefault(name, self._baseline(name))

    def build(self) -> None:
        """Stage what is committed, where no loader runs, and apply it; dbt installs what is new."""
        if not self._loaders:
            self.run("loader", "run", "--once")
        if not self._is_installed:
            self.run("dbt", "run")
            self._is_installed = True
        for slot, source in self._sources.items():
            settings = Settings.of(source, self._warehouse_dsn, slot, DEFAULT_SCHEMA)
            apply_once(settings)
            if self._has_spark_facts:
                run_job("spark-submit spark/apply.py --once", self.of_slot(slot))
                # A roll-up of what is built now for the first time is filled.
                apply_once(settings)

    def refresh(self) -> None:
        """Start every model from its baseline again, and run dbt's tests of all."""
        self.run("dbt", "build", "--full-refresh")
        self.build()

    @contextmanager
    def loaders(self) -> Iterator[None]:
        """Let a loader follow each source meanwhile."""
        try:
            self._start_loaders()
            yield
            for each in self._loaders:
                each.end()
        finally:
            for each in self._loaders:
                each.kill()
            self._loaders = []

    def kill_loaders(self) -> None:
        """Kill the loaders that follow, if any, and start others."""
        if self._loaders:
            for each in self._loaders:
                each.kill()
            self._start_loaders()

    def _start_loaders(self) -> None:
        self._starts += 1
        self._loaders = [
            RunningLoader(
                self.of_slot(slot), self._home / f"{slot}{self._starts}.log", limits=SHORT_PAUSES
            )
            for slot in self._sources
        ]
        for each in self._loaders:
            each.wait_for("following the slot")

    # The models.

    def declare(self, model: Model) -> None:
        """Write a fact's model, a new one or another body of one that there is."""
        name = model.recount.fact
        for path in self._project.glob(f"models/{name}.yml"):
            path.unlink()  # its contract lists other columns
        (self._project / "models" / f"{name}.sql").write_text(model.declaration + "\n")
        self.recounts |= {each.fact: each for each in (model.recount, *model.roll_ups)}
        self._is_installed = False
        self._since.pop(name, None)

    # The application, and what the facts say.

    def write(self) -> None:
        """Wait until the traffic has written some more on each source; it goes on."""
        ends = [each.counts.total() + self.random.randint(20, 100) for each in self.traffic]
        wait_until(
            lambda: all(
                each.counts.total() >= end for each, end in zip(self.traffic, ends, strict=True)
            ),
            "the traffic goes on",
        )

    def must_be_exact(self) -> None:
        """Let the traffic pause, apply what it has written and compare; then it goes on."""
        for traffic in self.traffic:
            traffic.stop()
        if self._loaders:
            for source in self.databases[: len(self._sources)]:
                self._wait_until_staged(source)
        self.build()
        assert self.differences() == []
        for traffic in self.traffic:
            traffic.start()

    def _wait_until_staged(self, source: Database) -> None:
        end = source.value("select pg_current_wal_insert_lsn()")
        # Something to pass for a loader that is idle now.
        source.execute("select pg_logical_emit_message(true, 'test', repeat(' ', 2048))")
        staged = "select position_lsn >= %s::pg_lsn from cdc.slot_position where slot_name = %s"
        wait_until(lambda: self.warehouse.value(staged, end, source.slot), "the loader stages it")

    def rows(self, fact: str) -> Counter[tuple[object, ...]]:
        """Return the rows of a fact."""
        return Counter(self.warehouse.execute(f'select * from analytics."{fact}"'))

    def differences(self) -> list[Difference]:
        """Return where the facts differ from their recounts."""
        return [
            each
            for name, recount in self.recounts.items()
            for each in comparison.differences(
                recount,
                self._sources,
                self._warehouse_dsn,
                since=self._since.get(recount.purges_since or name),
            )
        ]

    def _baseline(self, fact: str) -> str:
        return str(
            self.warehouse.value(
                "select min(snapshot_lsn) from cdc.baseline where fact_name = %s", fact
            )
        )


def make_databases(example: Example, cluster: Cluster, stack: ExitStack) -> list[Database]:
    """Make an empty database for each source and, where there are several, a warehouse.

    Each history has the same names: with others dbt would parse all models again.
    """
    names = (*example.slots, "warehouse") if example.has_warehouse else ("warehouse",)
    made = [stack.enter_context(empty_database(cluster, name)) for name in names]
    for slot, database in zip(example.slots, made, strict=False):
        database.slot = slot
    return made


@cache
def project_of(name: str) -> Path:
    """Copy an example's dbt project, whose package is this repository, once per test process."""
    project = Path(tempfile.mkdtemp()) / name
    left = shutil.ignore_patterns("dbt_packages", "package-lock.yml", "target", "logs", "*.py")
    shutil.copytree(examples.load(name).project, project, ignore=left)
    (project / "packages.yml").write_text(yaml.safe_dump({"packages": [{"local": str(ROOT)}]}))
    nowhere = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
    )
    done = run_dbt(
        ("deps", "--project-dir", str(project)), {**os.environ, **profiles(project), **nowhere}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return project
