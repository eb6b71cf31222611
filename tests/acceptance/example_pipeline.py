"""An example on databases of its own, operated by the project's commands while it is written to."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from demo import example as examples
from demo.example import Example
from loader.applying.applier import apply_once
from testkit import comparison
from testkit.commands import ROOT, RunningLoader, profiles, run_dbt
from testkit.comparison import Difference
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from testkit.system import System
from testkit.traffic import Sessions

RATE = 50
"""Transactions per second of each session: enough for every kind of change to meet every step."""

OF_DAYS = {"notify": "ft_service_days", "shop": "ft_orders", "time_entries": "ft_project_hours"}
"""By example, its fact of the days or months of a zone."""
OTHER_ZONE = "Pacific/Auckland"


class ExamplePipeline:
    """The databases of an example, its dbt project, and the commands on both."""

    def __init__(
        self, name: str, cluster: Cluster, home: Path, seed: int, stack: ExitStack
    ) -> None:
        example = examples.load(name)
        self.random = Random(seed)
        self.of_days = OF_DAYS[name]
        self.recounts = {each.fact: each for each in example.recounts}
        """What each of the facts that are declared now must hold."""
        *sources, self.warehouse = make_databases(example, cluster, stack)
        self._systems = [
            System(source, project_of(name), self.warehouse)
            for source in sources or [self.warehouse]
        ]
        self._since: dict[str, str] = {}
        self._is_installed = False
        self._has_spark_facts = example.has_spark_facts
        self._loaders: list[RunningLoader] = []
        self._models = project_of(name) / "models"
        shutil.rmtree(self._models)
        shutil.copytree(example.project / "models", self._models)
        self.traffic: list[Sessions[Any]] = []
        for number, system in enumerate(self._systems):
            system.project = project_of(name)
            system.given = {
                "LOADER_MANIFEST": str(system.home / "target" / "manifest.json"),
                "TMPDIR": str(home),
            }
            dsn = system.dsns[0]
            example.create(dsn)
            example.fill(dsn, 1500, seed + 100 * number)
            self.traffic.append(
                example.traffic(dsn, seed=seed + 100 * number, rate=RATE, truncates=True)
            )

    # The commands.

    def run(self, program: str, *arguments: str) -> None:
        """Run a command for each source, to its end; fail the test where it fails."""
        for system in self._systems:
            system.do(program, *arguments)

    def set_up(self) -> None:
        """Register the facts as the models declare them now."""
        self._systems[0].do("dbt", "--quiet", "parse")
        self.run("loader", "setup")

    def seed(self, *facts: str) -> None:
        """Make the baselines of these facts, or of all."""
        names = "".join(f" --fact {name}" for name in facts)
        # A fact that keeps purged rows counted is compared with them, up to the seed's position.
        keeps_purged = any("%(purges)s" in each.query for each in self.recounts.values())
        with self.loaders() if keeps_purged and not self._loaders else nullcontext():
            for system in self._systems:
                system.spark_job(f"spark-submit spark/seed.py{names}")
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
        for system in self._systems:
            apply_once(system.loader_settings)
            if self._has_spark_facts:
                system.spark_job("spark-submit spark/apply.py --once")
                # A roll-up of what is built now for the first time is filled.
                apply_once(system.loader_settings)

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
        self._loaders = [system.follow() for system in self._systems]

    # The models.

    def add(self) -> str:
        """Declare one fact more, like the one of days; return its name."""
        recount = replace(self.recounts[self.of_days], fact="ft_added")
        self._write(recount.fact, self._model(self.of_days).read_text())
        self.recounts[recount.fact] = recount
        return recount.fact

    def change(self) -> str:
        """Declare the fact of days in another zone; return its name."""
        fact, model = self.of_days, self._model(self.of_days).read_text()
        (zone,) = re.findall("'timezone': '(.*?)'", model)
        self._write(fact, model.replace(zone, OTHER_ZONE))
        above = {each.stem for each in self._models.glob("*.sql") if fact in each.read_text()}
        for name in {fact} | above:
            query = self.recounts[name].query.replace(zone, OTHER_ZONE)
            self.recounts[name] = replace(self.recounts[name], query=query)
        return fact

    def _model(self, name: str) -> Path:
        return self._models / f"{name}.sql"

    def _write(self, fact: str, model: str) -> None:
        self._model(fact).write_text(model)
        self._is_installed = False
        self._since.pop(fact, None)

    # The application, and what the facts say.

    def write(self) -> None:
        """Wait until the traffic has written some more on each source; it goes on."""
        for traffic in self.traffic:
            traffic.wait(self.random.randint(20, 100))

    def must_be_exact(self) -> None:
        """Let the traffic pause, apply what it has written and compare; then it goes on."""
        for traffic in self.traffic:
            traffic.stop()
        if self._loaders:
            for system in self._systems:
                system.wait_for_log()
        self.build()
        assert self.differences() == []
        for traffic in self.traffic:
            traffic.start()

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
                {system.slot: system.dsns[0] for system in self._systems},
                self._systems[0].dsns[1],
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
