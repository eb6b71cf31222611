"""A seed by spark-submit: exact amid writers, and whatever is killed the previous seed stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testkit.commands import wait_until
from tests.spark.support import TABLES, Source
from tests.spark.traffic import Writers, ends_as_a_recount
from waltally import lsn

PROGRESS = r"\s*\d+%, [\d,]+ rows read, [\d,]+ rows/s(, about \d+ s left)?"


def test_a_seed_amid_writers_plus_the_stream_from_its_position_is_a_recount(
    source: Source,
) -> None:
    source.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")
    source.fill(rows=400)
    with Writers(source, 3):
        code, out, err = source.submit("--json", "--partitions", "7")
    assert code == 0, err
    ends_as_a_recount(source, lsn.parse(json.loads(out)["snapshot_lsn"]))
    # Nothing of Java's, Spark's or Python's is printed.
    assert len(out.splitlines()) == 1
    counting, *progress = [line for line in err.splitlines() if "waiting for writers" not in line]
    assert re.fullmatch(r"counting public\.notifications, .* at [0-9A-F]+/[0-9A-F]+", counting)
    assert progress
    assert [line for line in progress if not re.fullmatch(PROGRESS, line)] == []


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the driver, then the JVM that started it: the driver outlives it and would go on."""
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.communicate()


def test_a_seed_killed_amid_the_swap_leaves_the_previous_one(source: Source) -> None:
    source.fill(rows=5)
    source.previous_seed()
    with source.session() as other, other.transaction():
        other.ask("lock table cdc.baseline in exclusive mode")
        killed = source.start()
        # The counts are swapped in the open transaction, the seed's own row is not.
        wait_until(lambda: source.waiting("relation") == 1 or killed.poll() is not None)
        kill(killed)
    wait_until(lambda: not source.job_sessions())
    assert source.has_previous_seed()


@pytest.mark.slow
def test_a_killed_seed_leaves_the_previous_one_and_a_second_runs_after_it(source: Source) -> None:
    source.fill()
    source.previous_seed()
    with source.seed_at_a_closed_gate() as killed:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert source.has_previous_seed()
    wait_until(lambda: not source.job_sessions())
    assert source.has_previous_seed()

    before = source.recount()
    with ThreadPoolExecutor(1) as pool, source.session() as application:
        with source.seed_at_a_closed_gate() as seed:
            code, _, err = source.seed("--timeout", "0.1")
            assert (code, "another seed of slot" in err) == (33, True), err

            truncate = "truncate notifications, notification_history"
            truncating = pool.submit(application.ask, truncate)
            wait_until(lambda: source.waiting("relation") == 3)
            assert source.has_previous_seed()
        _, err = seed.communicate(timeout=120)
        truncating.result(60)
    assert seed.returncode == 0, err
    assert source.baseline() == before
    assert source.recount() == {table: {} for table in TABLES}
    assert not source.incoming_tables()


@pytest.mark.parametrize("session", ["slot", pytest.param("locks", marks=pytest.mark.slow)])
def test_the_seed_fails_when_a_holder_is_terminated(source: Source, session: str) -> None:
    source.fill(rows=5)
    source.previous_seed()
    holder = (
        "select active_pid from pg_replication_slots where slot_name ~ '^waltally_seed_'"
        if session == "slot"
        else "select pid from pg_stat_activity where datname = current_database()"
        " and state = 'idle in transaction' and query ~ 'pg_inherits'"
    )
    with ThreadPoolExecutor(1) as pool:
        seeding = pool.submit(source.seed)
        with source.closed_gate(seeding.done):
            assert source.value(f"select pg_terminate_backend(({holder}))")
            # The job must not wait for its readers to come to an end.
            code, _, err = seeding.result(120)
    assert code == 30, err
    assert "the session that holds the snapshot or the table locks has ended" in err
    assert "Traceback" not in err and "\tat " not in err
    assert source.has_previous_seed()


def test_a_seed_with_a_password_in_a_property_does_not_start(source: Source) -> None:
    code, _, err = source.submit(conf={"spark.executorEnv.PGPASSWORD": "Zebra1931Crossing"})
    assert code == 2, err
    assert "spark.executorEnv.PGPASSWORD has a password" in err
    assert "Zebra1931Crossing" not in err
