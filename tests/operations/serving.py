"""A loader that builds and serves metrics and health over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from prometheus_client import Metric

from testkit.commands import (
    LOADER,
    SECRET,
    SHORT_PAUSES,
    RunningLoader,
    only_environment,
    profiles,
    run,
    wait_until,
)
from testkit.databases import Database
from testkit.facts import shipped_manifest
from testkit.models import Models
from testkit.servers import free_port
from tests.operations.ops_files import Samples, parse, samples

LIMITS = {
    **SHORT_PAUSES,
    "loader.monitoring.gauges.REFRESH_SECONDS": 0.3,
    "loader.monitoring.health.STALLED_SECONDS": 1.0,
    "loader.monitoring.gauges._STALE_SECONDS": 5.0,
}


class Served:
    """A loader that builds and serves metrics, its source and its target."""

    def __init__(
        self, source: Database, target: Database, home: Path, models: Models, *arguments: str
    ) -> None:
        """`arguments` are those of `loader run`; `--build` without any."""
        self.source = source
        self.target = target
        self.port = free_port()
        here, there = (each.cluster.dsn(each.name, password=SECRET) for each in (source, target))
        self.environment = {
            **source.environment(LOADER_SOURCE_DSN=here, LOADER_TARGET_DSN=there),
            **profiles(home),
            "LOADER_METRICS_PORT": str(self.port),
            "LOADER_MANIFEST": str(shipped_manifest()),
        }
        done = run([str(LOADER), "setup"], self.environment)
        assert done.returncode == 0, done.stderr
        self.target.take_baseline()
        with only_environment({**self.environment, **target.cluster.environment(target.name)}):
            models.install()
        words = arguments or ("--build",)
        self.running = RunningLoader(self.environment, home / "run.log", *words, limits=LIMITS)

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text that a path answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def scrape(self) -> str:
        status, text = self.get("/metrics")
        assert status == 200, text
        return text

    def families(self) -> list[Metric]:
        return parse(self.scrape())

    def samples(self) -> Samples:
        return samples(self.families())

    def value(self, name: str, **labels: str) -> float | None:
        """The one series of this name and these labels, None where there is none."""
        wanted = {("slot", self.source.slot), *labels.items()}
        found = [value for has, value in self.samples().get(name, []) if wanted <= has]
        assert len(found) < 2, (name, found)
        return found[0] if found else None

    def wait_for(self, name: str, least: float = 1, **labels: str) -> None:
        wait_until(
            lambda: (self.value(name, **labels) or 0) >= least, f"{name} is {least}: {self.log()}"
        )

    def log(self) -> str:
        return self.running.said()[-2000:]
