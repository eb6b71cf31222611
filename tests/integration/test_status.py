"""What cannot be followed is refused, and `loader status` is a contract."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from testkit.commands import LOADER, ROOT, wait_until
from testkit.databases import Database, application_database
from testkit.pipeline import Pipeline
from testkit.servers import Server


def test_status_is_a_contract(source: Database) -> None:
    assert source.loader("status", "--json").returncode == 20
    source.must("setup")
    source.take_baseline()
    source.insert(5)
    source.must("run", "--once")
    body = source.status()
    assert body["version"] == 6
    assert (body["healthy"], body["exact_as_of"], body["exact_age_seconds"]) == (True, None, None)
    assert set(body) == {
        "version", "source", "slot", "position", "models",
        "thresholds", "findings", "healthy", "summary", "exact_as_of", "exact_age_seconds",
    }  # fmt: skip
    assert body["slot"]["name"] == source.slot
    assert body["position"]["lsn"] == source.value("select position_lsn from cdc.slot_position")
    assert body["position"]["stored_changes"] == 5
    committed = source.value("select max(committed_at) from cdc.change_log")
    assert datetime.fromisoformat(body["position"]["newest_commit_at"]) == committed
    documented = (ROOT / "docs" / "monitoring.md").read_text()
    (model,) = body["models"]
    assert (model["name"], model["relation"]) == ("ft_service_stats", "analytics.ft_service_stats")
    said = source.execute("select state, reason, remedy, applied_lsn from cdc.model_state")
    assert said == [("waits", "it was not built yet", "`loader run --build` or `dbt build`", None)]
    fields = ("state", "reason", "remedy", "applied_lsn")
    assert [tuple(model[name] for name in fields)] == said
    assert model["is_finding"] is False
    shown = source.must("status")
    assert shown.startswith("no loader is running: nothing is applied yet\n"), shown
    assert "could not count" not in shown
    source.execute(
        "insert into cdc.baseline_rejection select %s, 'ft_service_stats', part, reason, rows, '{}'"
        " from (values ('live', 'too long', 1200), ('archived', 'too long', 34),"
        " ('live', 'no uuid', 1)) as rejected (part, reason, rows)",
        source.slot,
    )
    shown = " ".join(source.must("status").split())
    assert "could not count 1,235 rows: no uuid (1); too long (1,234)" in shown
    (seeded,) = source.status()["models"]
    assert seeded["baseline"]["rejected_count"] == 1235
    assert seeded["baseline"]["rejected_reasons"] == {"too long": 1234, "no uuid": 1}
    assert source.loader("status", LOADER_MAX_WAL_HELD_BYTES="1").returncode == 3
    parts = (model, seeded["baseline"], body["summary"])
    for part in (body, body["slot"], body["position"], body["thresholds"], *parts):
        for field in part:
            assert f"`{field}" in documented, field


def test_status_says_as_of_when_the_models_are_exact(pipeline: Pipeline) -> None:
    """Up to now while nothing waits to be applied, else up to the first change that does."""
    source = pipeline.source
    source.must("setup")
    source.take_baseline()
    source.insert(3)
    after = source.value("select clock_timestamp()")
    pipeline.must("run", "--once", "--build")
    with source.follow():
        assert " position " in " ".join(source.must("status", "--positions").split())
        assert "position" not in source.must("status"), "only where it is asked for"
        # At first it may be behind by the WAL that dbt has written.
        wait_until(
            lambda: source.must("status").startswith("healthy, exact as of "), "it is healthy"
        )
        body = source.status()
        as_of = datetime.fromisoformat(body["exact_as_of"])
        assert as_of >= after
        assert body["models"][0]["exact_as_of"] == body["exact_as_of"]
        source.execute("update cdc.model_watermark set moved_at = moved_at - interval '1 day'")
        source.insert(2)
        wait_until(lambda: source.staged() == 5, "it is stored")
        body = source.status()
        as_of = datetime.fromisoformat(body["exact_as_of"])
        assert as_of == source.value(
            "select min(committed_at) from cdc.change_log"
            " where commit_lsn >= (select applied_lsn from cdc.model_watermark)"
        )
        assert body["models"][0]["lag_seconds"] < 60, "a source that was quiet is not behind"
        source.execute("update cdc.change_log set staged_at = staged_at - interval '20 s'")
        shown = source.must("status")
        assert re.match(r"behind: ft_service_stats was not built for [2-5]\d", shown), shown


def test_a_staging_schema_of_another_loader_is_left_alone(source: Database) -> None:
    source.refused_with(20, "loader setup", "run", "--once")  # there is none yet
    source.must("setup")
    source.execute("alter table cdc.slot_position rename stored_changes to of_the_future")
    older = "made by an older loader\nTry: run `loader setup`"
    for command in (("run", "--once"), ("status",), ("setup", "--check")):
        source.refused_with(20, older, *command)
    source.execute("insert into cdc.schema_migration values (9999, 'from the future')")
    for verb in ("setup", "status"):
        assert source.loader(verb).returncode == 27, verb


@pytest.fixture(scope="module")
def limited() -> Iterator[Database]:
    """A server of the module that gives a slot up after 128 MB of WAL."""
    with Server({"fsync": "off", "max_slot_wal_keep_size": "'128MB'"}) as cluster:
        database = application_database(cluster)
        database.must("setup")
        database.take_baseline()
        yield database
        database.connection.close()


WELL = " UTC\nno loader is running: "
"""A page that begins with the status itself; while a server is away, an error comes first."""


def test_watching_outlasts_a_server_that_is_away(limited: Database, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    with shown.open("w") as out:
        process = subprocess.Popen(
            [str(LOADER), "status", "--watch"], env=limited.environment(), cwd=ROOT, stdout=out
        )
    try:
        wait_until(lambda: WELL in shown.read_text(), "it shows the status")
        limited.connection.close()
        limited.cluster.stop()
        wait_until(lambda: "Error: The source cannot be reached" in shown.read_text(), "it says so")
        before = len(shown.read_text())
        limited.cluster.start()
        wait_until(lambda: WELL in shown.read_text()[before:], "it shows it again")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()


def test_status_warns_before_the_slot_is_lost(limited: Database) -> None:
    limited = limited.reconnect()
    assert "lost after" in limited.must("status"), "a small limit alone is no problem"
    written = "select pg_switch_wal() from pg_logical_emit_message(false, 'x', 'x')"
    safe = "select safe_wal_size < 50 * 2 ^ 20 from pg_replication_slots"
    wait_until(lambda: limited.execute(written) and limited.value(safe), "it fills")
    (problem,) = limited.status()["findings"]
    assert "max_slot_wal_keep_size" in problem["message"]
    limited.must("status", "--min-safe-wal-bytes", str(2**20))
    limited.must("status", LOADER_MIN_SAFE_WAL_BYTES=str(2**20))


def test_status_names_who_holds_a_model_up(pipeline: Pipeline) -> None:
    pipeline.begin()
    pipeline.target.execute("truncate cdc.change_log")
    with pipeline.target.holding(f"select cdc.apply('{pipeline.slot}')") as session:
        session.ask("set application_name to 'report'")
        with pipeline.follow("--build"):
            pipeline.source.insert(5)
            pipeline.wait_for_staged(5)
            body = pipeline.status()
            assert body["findings"] == []
            (model,) = body["models"]
            newest = pipeline.target.value("select to_json(max(committed_at)) from cdc.change_log")
            assert model["exact_as_of"] == body["exact_as_of"] == newest
            holder = "select cdc.holder_of(cdc.lock_key('slot', %s))"
            pid = pipeline.target.value(holder, pipeline.slot)
            assert pid == session.info.backend_pid
            assert (model["held_by"]["pid"], model["held_by"]["application"]) == (pid, "report")
            session.rollback()
            pipeline.must("wait")
    assert pipeline.status()["models"][0]["held_by"] is None
