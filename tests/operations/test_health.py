"""What a running loader answers to probes: alive, and following."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testkit.commands import wait_until
from testkit.databases import Database, application_database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.servers import Cluster, Server, connect
from tests.operations.serving import Served

FACT = "analytics.ft_service_stats"
READY = (200, "following the slot\n")


@pytest.fixture(scope="module")
def served(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, models: Models
) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("health")
    with Server({"fsync": "off"}) as own, empty_database(cluster, WAREHOUSE) as target:
        made = Served(application_database(own, "application"), target, home, models)
        with made.running:
            wait_until(lambda: "following the slot" in made.log(), made.log())
            made.source.insert(2)
            made.wait_for("waltally_build_duration_seconds_count")
            yield made


def is_ready(served: Served) -> None:
    wait_until(lambda: served.get("/readyz") == READY, f"it is ready: {served.log()}")


def is_not_ready(served: Served, reason: str) -> None:
    """It is alive all the same."""

    def found() -> bool:
        status, line = served.get("/readyz")
        assert line.count("\n") == 1
        return status == 503 and reason in line

    wait_until(found, f"{reason}: {served.get('/readyz')}")
    assert served.get("/healthz") == (200, "alive\n")


@contextmanager
def commits_that_wait(target: Database) -> Iterator[None]:
    """No batch can be committed within the block."""
    holder = connect(target.cluster.dsn(target.name))
    holder.autocommit = False
    try:
        holder.cursor().execute("select from cdc.slot_position for update")
        yield
    finally:
        holder.close()


def test_a_loader_that_follows_is_alive_and_ready(served: Served) -> None:
    is_ready(served)
    assert served.get("/healthz") == (200, "alive\n")


def test_another_path_is_no_probe(served: Served) -> None:
    assert served.get("/health") == (404, "there is /metrics, /healthz, /readyz\n")
    assert served.get("/")[0] == 404


def test_a_fact_that_failed_is_not_ready_until_it_is_applied(served: Served) -> None:
    served.target.execute(f"alter table {FACT} rename live_count to gone")
    served.source.insert(1)
    is_not_ready(served, "1 fact could not be applied")
    served.target.execute(f"alter table {FACT} rename gone to live_count")
    is_ready(served)


def test_a_source_that_is_stopped_is_no_reason_for_a_restart(served: Served) -> None:
    served.source.connection.close()
    served.source.cluster.stop()
    try:
        is_not_ready(served, "the slot is not streamed (CannotConnect: ")
    finally:
        served.source.cluster.start()
    served.source = Database(served.source.cluster, served.source.name)
    is_ready(served)


def test_a_target_that_takes_no_commit_is_no_reason_for_a_restart(served: Served) -> None:
    with commits_that_wait(served.target):
        served.source.insert(1)
        is_not_ready(served, "a batch has been open for ")
    is_ready(served)


def test_a_loader_that_stops_is_alive_until_its_end(served: Served) -> None:
    with commits_that_wait(served.target):
        served.source.insert(1)
        is_not_ready(served, "a batch has been open for ")
        served.running.process.send_signal(signal.SIGTERM)
        is_not_ready(served, "the loader is stopping")
    assert served.running.process.wait(120) == 0, served.log()
    assert served.target.value(f"select sum(count) from {FACT}") == 5
