"""A private Prometheus that scrapes one loader, asked over HTTP as Grafana asks it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_CONFIG = """\
global:
  scrape_interval: {every}s
scrape_configs:
  - job_name: waltally
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""


class QueryFailed(RuntimeError):
    """Prometheus refused an expression; the message has both."""


@dataclass(frozen=True)
class Series:
    """One line of an answer: its labels, and a value at each time that has one."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    """Seconds since 1970."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class Prometheus:
    """How to start it and where it answers."""

    program: Path
    folder: Path
    """A folder for its configuration and its data."""
    port: int

    def command(self, scraped_port: int, every: int) -> list[str]:
        """Write the configuration; return the command. `every` is in seconds."""
        config = self.folder / "prometheus.yml"
        config.write_text(_CONFIG.format(every=every, port=scraped_port))
        return [
            str(self.program),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    def query(self, expression: str, start: float, end: float, step: float) -> list[Series]:
        """Return the expression's series over a time, a value per `step` seconds.

        Raises QueryFailed where Prometheus refuses the expression or cannot be reached.
        """
        asked = {"query": expression, "start": start, "end": end, "step": step}
        url = f"http://127.0.0.1:{self.port}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                found = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise QueryFailed(f"{expression}: {error.read().decode()}") from error
        except OSError as error:
            raise QueryFailed(f"{expression}: {error}") from error
        return [
            Series(
                each["metric"],
                tuple(float(at) for at, _ in each["values"]),
                tuple(float(value) for _, value in each["values"]),
            )
            for each in found
        ]

    def wait_for(self, expression: str, seconds: float) -> None:
        """Wait until the expression has a series now; raise QueryFailed after so many seconds."""
        until = time.monotonic() + seconds
        while True:
            try:
                now = time.time()
                if self.query(expression, now, now, 1):
                    return
                failure = QueryFailed(f"{expression} has no series")
            except QueryFailed as error:
                failure = error
            if time.monotonic() > until:
                raise failure
            time.sleep(0.5)
