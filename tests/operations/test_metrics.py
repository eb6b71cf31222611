"""What a running loader serves to Prometheus and answers to probes, also without its source."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from testkit.commands import wait_until
from testkit.databases import application_database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.hostile import SECRET
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, free_port
from tests.operations.test_ops_files import documented

MODEL = "analytics.ft_service_stats"


class Served(Pipeline):
    """A loader that builds and serves metrics."""

    port: int

    def serve(self) -> None:
        self.port = free_port()
        self.limits.refresh_metrics, self.limits.stale_metrics = 0.3, 3.0
        self.limits.refresh_findings = 0.5
        self.limits.stalled_seconds = 1.0
        self.running = self.follow("--build", LOADER_METRICS_PORT=str(self.port))

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text that a path answers."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def families(self) -> list[Metric]:
        status, text = self.get("/metrics")
        assert status == 200, text
        return list(text_string_to_metric_families(text))

    def value(self, name: str, **labels: str) -> float | None:
        """The one series of this name and these labels, None where there is none."""
        wanted = {"slot": self.source.slot, **labels}.items()
        series = [each for family in self.families() for each in family.samples]
        found = [
            each.value for each in series if each.name == name and wanted <= each.labels.items()
        ]
        assert len(found) < 2, (name, found)
        return found[0] if found else None

    def wait_for(self, name: str, least: float = 1, **labels: str) -> None:
        self.wait_until(lambda: (self.value(name, **labels) or 0) >= least, f"{name} is {least}")

    def wait_for_value(self, name: str, value: float | None, **labels: str) -> None:
        self.wait_until(lambda: self.value(name, **labels) == value, f"{name} is {value}")

    def wait_until(self, condition: Callable[[], bool], claim: str) -> None:
        wait_until(condition, f"{claim}: {self.log()}")

    def is_ready(self) -> None:
        ready = (200, "following the slot\n")
        self.wait_until(lambda: self.get("/readyz") == ready, "it is ready")

    def is_not_ready(self, reason: str) -> None:
        """It is alive all the same."""

        def says_so() -> bool:
            status, line = self.get("/readyz")
            assert line.count("\n") == 1
            return status == 503 and reason in line

        self.wait_until(says_so, reason)
        assert self.get("/healthz") == (200, "alive\n")

    def log(self) -> str:
        return self.running.said()[-2000:]


@pytest.fixture(scope="module")
def served(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with (
        Server({"fsync": "off", "max_slot_wal_keep_size": "'8GB'"}) as own,
        empty_database(cluster, WAREHOUSE) as target,
    ):
        source = application_database(own, "application")
        made = Served(source, tmp_path_factory.mktemp("served"), target)
        for side, each in (("SOURCE", source), ("TARGET", target)):
            made.given[f"LOADER_{side}_DSN"] = each.cluster.dsn(each.name, password=SECRET)
        made.must("setup")
        target.take_baseline()
        made.serve()
        with made.running:
            source.insert(5)
            counted = f"select sum(live_count) from {MODEL}"
            made.wait_until(lambda: target.value(counted) == 5, "what comes later is timed")
            source.execute("update notifications set notification_status = 'sent'")
            source.execute("delete from notifications where ctid = '(0,6)'")
            source.insert(2)
            made.wait_for("waltally_staged_changes_total", 5 + 5 + 1 + 2)
            made.wait_for("waltally_freshness_seconds_count", model=MODEL)
            made.wait_for("waltally_lag_bytes", 0)
            yield made


def test_every_metric_is_served_and_documented(served: Served) -> None:
    def rows() -> dict[str, tuple[str, str]]:
        endings = {"counter": "_total"}
        return {
            family.name + endings.get(family.type, ""): (family.type, family.documentation)
            for family in served.families()
        }

    served.wait_until(lambda: rows().keys() == documented().keys(), "each is there")
    assert rows() == documented()


def test_what_is_served_is_what_happened(served: Served) -> None:
    ask = served.target.value
    transactions = ask("select count(distinct commit_lsn) from cdc.change_log")
    batches = served.value("waltally_batch_changes_count") or 0
    for name, value in {
        "waltally_staged_changes_total": 13,
        "waltally_staged_transactions_total": transactions,
        "waltally_batch_changes_sum": 13,
        "waltally_batch_duration_seconds_count": batches,
        "waltally_following": 1,
    }.items():
        assert served.value(name) == value, name
    assert ask("select stored_changes from cdc.slot_position") == served.target.staged() == 13
    model = {"model": MODEL}
    for name, least, most, labels in (
        ("waltally_commits_total", batches, 2**20, {}),
        ("waltally_wal_held_bytes", 1, 2**30, {}),
        ("waltally_safe_wal_size_bytes", 2**32, 2**34, {}),
        ("waltally_wal_status", 1, 1, {"status": "reserved"}),
        ("waltally_wal_status", 0, 0, {"status": "lost"}),
        ("waltally_freshness_seconds_sum", 1e-6, 3600, model),
    ):
        found = served.value(name, **labels)
        assert found is not None and least <= found <= most, name
    served.wait_for("waltally_healthy")
    at = "select position_lsn - '0/0'::pg_lsn from cdc.slot_position"
    served.wait_until(lambda: served.value("waltally_position_bytes") == ask(at), "the same")


def test_the_age_of_an_audit_is_told_once_there_is_one(served: Served) -> None:
    age = "waltally_model_audit_age_seconds"
    assert served.value(age, model=MODEL) is None
    note = "update cdc.model_watermark set audited_at = now() - %s::interval where relation = %s"
    served.target.execute(note, "1 hour", MODEL)
    served.wait_for(age, 3600, model=MODEL)
    assert (served.value(age, model=MODEL) or 0) < 7200
    served.target.execute(note, None, MODEL)
    served.wait_for_value(age, None, model=MODEL)


def test_another_path_and_a_port_in_use_are_refused(served: Served) -> None:
    assert served.get("/health") == (404, "there is /metrics, /healthz, /readyz\n")
    port = str(served.port)
    assert port in served.refused_with(2, "LOADER_METRICS_PORT", "run", LOADER_METRICS_PORT=port)


def test_a_model_that_fails_is_told_until_it_is_applied(served: Served) -> None:
    assert served.value("waltally_model_state", model=MODEL, state="follows") == 1
    served.target.execute(f"alter table {MODEL} rename live_count to gone")
    served.source.insert(1)
    served.wait_for("waltally_model_state", model=MODEL, state="failed")
    served.is_not_ready("1 model could not be applied")
    assert served.value("waltally_model_state", model=MODEL, state="follows") == 0
    served.wait_for("waltally_model_lag_bytes", model=MODEL)
    served.target.execute(f"alter table {MODEL} rename gone to live_count")
    served.wait_for("waltally_model_state", model=MODEL, state="follows")
    served.wait_for_value("waltally_model_lag_bytes", 0, model=MODEL)
    served.is_ready()


def test_a_source_that_is_away_takes_only_its_own_series_away(served: Served) -> None:
    served.source.connection.close()
    served.source.cluster.stop()
    try:
        served.wait_for_value("waltally_source_up", 0)
        served.wait_for_value("waltally_following", 0)
        served.is_not_ready("the slot is not streamed (CannotConnect: ")
        for name, value in {
            **{"waltally_wal_held_bytes": None, "waltally_lag_bytes": None},
            "waltally_target_up": 1,
        }.items():
            assert served.value(name) == value, name
        assert served.value("waltally_model_lag_seconds", model=MODEL) == 0
        served.wait_for("waltally_errors_total", kind="CannotConnect")
    finally:
        served.source.cluster.start()
    served.source = served.source.reconnect()
    for name in ("waltally_source_up", "waltally_following", "waltally_reconnects_total"):
        served.wait_for(name)
    served.is_ready()
    assert served.value("waltally_lag_bytes") is not None


def test_a_change_that_cannot_be_counted_is_told(served: Served) -> None:
    served.source.execute("alter table notifications replica identity nothing")
    served.source.execute("delete from notifications where notification_status = 'created'")
    served.source.execute("alter table notifications replica identity full")
    served.wait_for("waltally_model_has_rejected_changes", model=MODEL)
    served.wait_for("waltally_findings", kind="Unhealthy")
    assert served.value("waltally_healthy") == 0


def test_no_password_and_no_row_is_in_a_scrape_or_in_the_log(served: Served) -> None:
    for text in (served.get("/metrics")[1], served.running.said()):
        assert SECRET not in text
        assert "someone" not in text
    assert SECRET not in str(served.target.execute("select * from cdc.slot_position"))


def test_a_frozen_source_holds_up_neither_a_scrape_nor_the_end(served: Served) -> None:
    metrics = "select pid from pg_stat_activity where application_name = 'waltally metrics'"
    pid = served.source.value(metrics)
    os.kill(pid, signal.SIGSTOP)
    try:
        served.wait_for_value("waltally_source_up", 0)
        assert served.value("waltally_following") == 1
        assert served.value("waltally_target_up") == 1
        served.running.end()
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_loader_that_cannot_commit_is_alive_until_its_end(served: Served) -> None:
    """Neither a target that waits nor a stop is a reason for a restart."""
    staged = served.target.staged()
    served.serve()
    with served.running:
        served.is_ready()
        with served.target.holding("select from cdc.slot_position for update"):
            served.source.insert(1)
            served.is_not_ready("a batch has been open for ")
            served.running.process.send_signal(signal.SIGTERM)
            served.is_not_ready("the loader is stopping")
        assert served.running.process.wait(120) == 0, served.log()
    assert served.target.staged() == staged + 1
