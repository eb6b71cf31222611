"""A build of the models in this process, and what it took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import server_cpu
from benchmarks.workload import dbt_home
from demo.cluster import Cluster
from loader.build.builder import Models, export_target
from waltally.settings import DEFAULT_TABLES, Settings

SLOT = "growth"
SCHEMA = "cdc"


@dataclass(frozen=True)
class Build:
    """What one build took."""

    seconds: float
    server: float
    """CPU seconds of the server."""
    dbt: float
    """CPU seconds of dbt in this process."""


def settings(cluster: Cluster, database: str = "postgres") -> Settings:
    """Return the loader's settings for a target in this database."""
    dsn = cluster.dsn(database)
    return Settings.of(dsn, dsn, SLOT, DEFAULT_TABLES, SCHEMA)


@contextmanager
def in_dbt_home(home: Path) -> Iterator[None]:
    """Let dbt in this process keep its files in `home` and find the profile there."""
    before = dict(os.environ)
    os.environ |= dbt_home(home)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def timed_build(cluster: Cluster, models: Models, of: Settings) -> Build:
    """Apply the models once and return what it took."""
    export_target(of)
    server, own, began = server_cpu(cluster), time.process_time(), time.monotonic()
    models.apply()
    seconds = time.monotonic() - began
    return Build(seconds, server_cpu(cluster) - server, time.process_time() - own)
