"""Every job runs over Spark Connect: the client has no JVM, and the server has nothing of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from testkit.commands import ROOT
from testkit.spark_connect import connect_server, run_remotely
from tests.spark.archives import Log, archived
from tests.spark.audited import Audited
from tests.spark.support import Source


@pytest.mark.slow
def test_a_seed_runs_over_connect(server: str, source: Source) -> None:
    source.fill_many()
    done = run_remotely(server, "seed", environment=source.variables)
    assert done.returncode == 0, done.stderr
    assert source.baseline() == source.recount()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["client", "server"])
def test_a_seed_over_connect_that_loses_its_driver_leaves_the_previous_one_and_the_next_is_exact(
    server: str, source: Source, lost: str
) -> None:
    source.fill_many()
    source.previous_seed()
    with connect_server() as other:
        with source.seed_that_waits_to_write("--forget-purged", remote=other.address) as seed:
            (other.process if lost == "server" else seed).kill()
            if lost == "client":
                _, err = seed.communicate()
                # The server's tasks have not noticed, and write for nobody.
                assert source.waiting("relation"), err
        out, err = seed.communicate(timeout=120)
        assert seed.returncode, err
        assert "Traceback" not in out + err
        assert source.has_previous_seed()
        done = run_remotely(server, "seed", "--forget-purged", environment=source.variables)
        assert done.returncode == 0, done.stderr
    assert source.baseline() == source.recount()
    # What the killed one had copied is gone too.
    assert not source.tables_of_jobs()


@pytest.mark.slow
def test_archive_and_replay_run_over_connect(
    server: str, audited: Audited, log: Log, tmp_path: Path
) -> None:
    audited.source.insert(7)
    audited.stage()
    audited.build()
    home = str(tmp_path / "of a model")
    for job, *flags in (("archive", "--to", home), ("replay", "--from", home, "--compare")):
        done = run_remotely(server, job, *flags, environment=audited.environment())
        assert done.returncode == 0, done.stdout + done.stderr
    log.append(3, 3, 12, 1)
    flags = ["--to", str(log.home), "--slice-changes", "5"]
    done = run_remotely(server, "archive", *flags, environment=log.source.variables)
    assert "19 changes from" in done.stdout + done.stderr
    assert archived(log.slot_home) == log.rows()
    found = log.source.read_apart({"SPARK_REMOTE": server})
    assert found == ("pyspark.sql.connect.session", log.read())


STREAM = """
import json, sys, waltally_source
from pyspark.sql import SparkSession
changes = SparkSession.active().readStream.format("waltally").options(**json.loads(sys.argv[1]))
query = changes.load().writeStream.option("checkpointLocation", sys.argv[2] + " checkpoint")
query.format("parquet").trigger(availableNow=True).start(sys.argv[2]).awaitTermination()
"""


@pytest.mark.slow
def test_a_stream_over_connect_has_each_change_once(server: str, log: Log, tmp_path: Path) -> None:
    home = tmp_path / "stream"
    given = json.dumps({"target": log.source.dsn, "slot": log.source.slot, "maxChanges": "5"})
    environment = {**log.source.variables, "PYTHONPATH": str(ROOT / "spark")}
    for size in (3, 12):
        log.append(size, 1)
        done = subprocess.run(
            [sys.executable, "-c", STREAM, given, str(home)],
            env={**environment, "SPARK_REMOTE": server},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    columns = ["commit_lsn", "ordinal", "payload"]
    rows = pyarrow.parquet.read_table(home, columns=columns).to_pylist()
    assert sorted([row[name] for name in columns] for row in rows) == log.read()


@pytest.mark.slow
def test_an_audit_runs_over_connect_and_finds_a_wrong_model(server: str, audited: Audited) -> None:
    environment = audited.environment()
    with audited.follow():
        done = run_remotely(server, "audit", environment=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        audited.source.execute(
            "update analytics.ft_service_stats set live_count = live_count + 1"
            " where ctid = (select min(ctid) from analytics.ft_service_stats)"
        )
        done = run_remotely(server, "audit", environment=environment)
        assert done.returncode == 42, done.stdout + done.stderr
        assert "live_count" in done.stdout


@pytest.mark.slow
def test_changes_are_applied_over_connect(server: str, audited: Audited) -> None:
    source = audited.source
    source.execute("update cdc.installed_model set engine = 'spark'")
    source.insert(7)
    audited.stage()
    flags = ("--once", "--in-driver", "0")
    done = run_remotely(server, "apply", *flags, environment=audited.environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 7 changes in " in done.stdout
    counted = source.value("select sum(live_count) from analytics.ft_service_stats")
    assert counted == source.value("select count(*) from notifications")


@pytest.mark.slow
def test_a_server_that_is_not_there_is_said(source: Source) -> None:
    done = run_remotely(
        "sc://127.0.0.1:1/;token=secret", "archive", "--to", "x", environment=source.variables
    )
    assert done.returncode == 47, done.stderr
    assert "no session of Spark Connect at 127.0.0.1:1: " in done.stderr
    assert "secret" not in done.stdout + done.stderr
