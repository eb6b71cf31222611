"""What a running loader serves to Prometheus and answers to probes, also without its source."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from testkit.commands import LOADER, run, sentence, wait_until
from testkit.databases import application_database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.hostile import SECRET
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, connect, free_port
from tests.operations.test_ops_files import documented

MODEL = "analytics.ft_service_stats"


class Served(Pipeline):
    """A loader that builds and serves metrics."""

    port: int

    def environment(self, **more: str) -> dict[str, str]:
        here, there = (
            each.cluster.dsn(each.name, password=SECRET) for each in (self.source, self.target)
        )
        places = {"LOADER_SOURCE_DSN": here, "LOADER_TARGET_DSN": there}
        return super().environment(**places, **more)

    def serve(self) -> None:
        self.port = free_port()
        self.limits.refresh_metrics, self.limits.stale_metrics = 0.3, 3.0
        self.limits.refresh_findings = 0.5
        self.limits.stalled_seconds = 1.0
        self.running = self.follow("--build", LOADER_METRICS_PORT=str(self.port))

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
        return list(text_string_to_metric_families(self.scrape()))

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
        wait_until(
            lambda: (self.value(name, **labels) or 0) >= least, f"{name} is {least}: {self.log()}"
        )

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
        made.must("setup")
        target.take_baseline()
        made.serve()
        with made.running:
            source.insert(5)
            counted = f"select sum(live_count) from {MODEL}"
            wait_until(
                lambda: target.value(counted) == 5, "they are built, and what comes later is timed"
            )
            source.execute(
                "update notifications set notification_status = 'sent';"
                "delete from notifications where ctid = (select min(ctid) from notifications)"
            )
            source.insert(2)
            made.wait_for("waltally_staged_changes_total", 5 + 5 + 1 + 2)
            made.wait_for("waltally_freshness_seconds_count", model=MODEL)
            made.wait_for("waltally_lag_bytes", 0)
            yield made


def is_ready(served: Served) -> None:
    ready = (200, "following the slot\n")
    wait_until(lambda: served.get("/readyz") == ready, f"it is ready: {served.log()}")


def is_not_ready(served: Served, reason: str) -> None:
    """It is alive all the same."""

    def says_so() -> bool:
        status, line = served.get("/readyz")
        assert line.count("\n") == 1
        return status == 503 and reason in line

    wait_until(says_so, f"{reason}: {served.get('/readyz')}")
    assert served.get("/healthz") == (200, "alive\n")


def test_every_metric_is_served_and_documented(served: Served) -> None:
    def rows() -> dict[str, tuple[str, str]]:
        return {
            family.name + ("_total" if family.type == "counter" else ""): (
                family.type,
                family.documentation,
            )
            for family in served.families()
        }

    wait_until(lambda: set(rows()) == set(documented()), str(set(rows()) ^ set(documented())))
    assert rows() == documented()


def test_what_is_served_is_what_happened(served: Served) -> None:
    staged = served.target.staged()
    transactions = served.target.value("select count(distinct commit_lsn) from cdc.change_log")
    assert staged == 13
    assert served.value("waltally_staged_changes_total") == staged
    assert served.value("waltally_staged_transactions_total") == transactions
    assert served.value("waltally_batch_changes_sum") == staged
    batches = served.value("waltally_batch_changes_count")
    assert served.value("waltally_batch_duration_seconds_count") == batches
    assert (served.value("waltally_commits_total") or 0) >= (batches or 0)
    assert served.value("waltally_following") == 1
    stored = served.target.value("select stored_changes from cdc.slot_position")
    assert stored == staged
    assert 0 < (served.value("waltally_wal_held_bytes") or 0) < 2**30
    assert 2**32 < (served.value("waltally_safe_wal_size_bytes") or 0) < 2**34
    assert served.value("waltally_wal_status", status="reserved") == 1
    assert served.value("waltally_wal_status", status="lost") == 0
    served.wait_for("waltally_healthy")
    freshness = served.value("waltally_freshness_seconds_sum", model=MODEL)
    assert freshness is not None and 0 < freshness < 3600
    at = "select position_lsn - '0/0'::pg_lsn from cdc.slot_position"
    wait_until(
        lambda: served.value("waltally_position_bytes") == served.target.value(at), "the same"
    )


def test_the_age_of_an_audit_is_told_once_there_is_one(served: Served) -> None:
    assert served.value("waltally_model_audit_age_seconds", model=MODEL) is None
    note = "update cdc.model_watermark set audited_at = now() - %s::interval where model_name = %s"
    served.target.execute(note, "1 hour", MODEL)
    served.wait_for("waltally_model_audit_age_seconds", 3600, model=MODEL)
    assert (served.value("waltally_model_audit_age_seconds", model=MODEL) or 0) < 7200
    served.target.execute(note, None, MODEL)
    wait_until(
        lambda: served.value("waltally_model_audit_age_seconds", model=MODEL) is None, "none"
    )


def test_another_path_and_a_port_in_use_are_refused(served: Served) -> None:
    assert served.get("/health") == (404, "there is /metrics, /healthz, /readyz\n")
    done = run([str(LOADER), "run"], served.environment(LOADER_METRICS_PORT=str(served.port)))
    assert done.returncode == 2
    assert "LOADER_METRICS_PORT" in sentence(done.stderr)
    assert str(served.port) in done.stderr


def test_a_model_that_fails_is_told_until_it_is_applied(served: Served) -> None:
    assert served.value("waltally_model_state", model=MODEL, state="follows") == 1
    served.target.execute(f"alter table {MODEL} rename live_count to gone")
    served.source.insert(1)
    served.wait_for("waltally_model_state", model=MODEL, state="failed")
    is_not_ready(served, "1 model could not be applied")
    assert served.value("waltally_model_state", model=MODEL, state="follows") == 0
    served.wait_for("waltally_model_lag_bytes", model=MODEL)
    served.target.execute(f"alter table {MODEL} rename gone to live_count")
    served.wait_for("waltally_model_state", model=MODEL, state="follows")
    wait_until(lambda: served.value("waltally_model_lag_bytes", model=MODEL) == 0, "it is applied")
    is_ready(served)


def test_a_source_that_is_away_takes_only_its_own_series_away(served: Served) -> None:
    served.source.connection.close()
    served.source.cluster.stop()
    try:
        wait_until(lambda: served.value("waltally_source_up") == 0, served.log())
        wait_until(lambda: served.value("waltally_following") == 0, served.log())
        is_not_ready(served, "the slot is not streamed (CannotConnect: ")
        assert served.value("waltally_wal_held_bytes") is None
        assert served.value("waltally_lag_bytes") is None
        assert served.value("waltally_target_up") == 1
        assert served.value("waltally_model_lag_seconds", model=MODEL) == 0
        served.wait_for("waltally_errors_total", kind="CannotConnect")
    finally:
        served.source.cluster.start()
    served.source = served.source.reconnect()
    served.wait_for("waltally_source_up")
    served.wait_for("waltally_following")
    is_ready(served)
    assert (served.value("waltally_reconnects_total") or 0) >= 1
    assert served.value("waltally_lag_bytes") is not None


def test_a_change_that_cannot_be_counted_is_told(served: Served) -> None:
    served.source.execute("alter table notifications replica identity nothing")
    served.source.execute(
        "delete from notifications where ctid = (select max(ctid) from notifications)"
    )
    served.source.execute("alter table notifications replica identity full")
    served.wait_for("waltally_model_has_rejected_changes", model=MODEL)
    served.wait_for("waltally_findings", kind="Unhealthy")
    assert served.value("waltally_healthy") == 0


def test_no_password_and_no_row_is_in_a_scrape_or_in_the_log(served: Served) -> None:
    for text in (served.scrape(), served.running.said()):
        assert SECRET not in text
        assert "someone" not in text
    assert SECRET not in str(served.target.execute("select * from cdc.slot_position"))


def test_a_frozen_source_holds_up_neither_a_scrape_nor_the_end(served: Served) -> None:
    pid = served.source.value(
        "select pid from pg_stat_activity where application_name = 'waltally metrics'"
    )
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: served.value("waltally_source_up") == 0, "the answer is too old")
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
        is_ready(served)
        with closing(connect(served.target.cluster.dsn(served.target.name))) as holder:
            holder.autocommit = False
            holder.cursor().execute("select from cdc.slot_position for update")
            served.source.insert(1)
            is_not_ready(served, "a batch has been open for ")
            served.running.process.send_signal(signal.SIGTERM)
            is_not_ready(served, "the loader is stopping")
        assert served.running.process.wait(120) == 0, served.log()
    assert served.target.staged() == staged + 1
