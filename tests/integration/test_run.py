"""`loader run`: whole transactions, once each."""

from __future__ import annotations

import psycopg2
import pytest

from testkit.commands import wait_until
from testkit.databases import Database, paste
from testkit.following import is_copying, peak_memory
from testkit.pipeline import Pipeline
from testkit.second_opinion import other_slot

OWN_ROWS = """
select count(*) from pg_logical_slot_peek_changes(
    %s, null, null, 'format-version', '2', 'filter-tables', 'public.*',
    'filter-origins',
    (select coalesce(min(roident), 0)::text from pg_replication_origin where roname like %s)
) where data like '%%"table":"change_log_%%'
"""
"""Rows of the change log that a slot delivers to whoever leaves our origin out."""


def test_own_rows_are_skipped_with_the_right_and_harmless_without(source: Database) -> None:
    role = f"least_{source.name}"
    source.execute(
        f"create role {role} login replication; grant create on database {source.name} to {role}"
    )
    origins = "select count(*) from pg_replication_origin where roname like %s"
    for user in ("postgres", role):
        source.must("setup", PGUSER=user)
        assert source.value(origins, f"%{source.slot}") == (user == "postgres")
        other = other_slot(source)
        source.insert(1000)
        source.must("run", "--once", PGUSER=user)
        source.must("run", "--once", PGUSER=user)
        assert source.staged() == 1000
        own_rows = source.value(OWN_ROWS, other, f"%{source.slot}")
        assert own_rows == (0 if user == "postgres" else 1000)
        source.execute("select pg_drop_replication_slot(%s)", other)
        source.must("teardown", "--drop-data", "--yes", PGUSER=user)
    source.execute(f"drop owned by {role}; drop role {role}")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(150_000, id="a hundred and fifty thousand"),
        pytest.param(1_000_000, id="a million", marks=pytest.mark.slow),
    ],
)
def test_a_large_transaction_passes_in_constant_memory_and_whole(
    source: Database, rows: int
) -> None:
    """A stop in its middle leaves nothing of it."""
    source.must("setup")
    with source.follow() as running:
        source.insert(1)
        wait_until(lambda: source.staged() == 1, "it has stored something")
        idle = peak_memory(running)
        source.insert(rows)
        wait_until(lambda: is_copying(source), "a COPY is under way")
    assert source.staged() == 1
    with source.follow() as running:
        wait_until(lambda: source.staged() == rows + 1, "all of it is stored", 300)
        assert peak_memory(running) - idle < 64 * 1024
    assert f"INFO stored {rows:,} changes in 1 batch over " in running.said()
    assert source.value("select count(distinct commit_lsn) from cdc.change_log") == 2
    assert source.value("select max(ordinal) from cdc.change_log") == rows


def test_no_writer_is_held_up_by_setup_or_run(pipeline: Pipeline) -> None:
    """The application's writes go on under a lock timeout while everything is set up."""
    writer = psycopg2.connect(pipeline.dsns[0])
    writer.autocommit = True
    cursor = writer.cursor()
    cursor.execute("set lock_timeout to '100ms'")
    setup = pipeline.spawn("loader", "setup")
    while setup.poll() is None:
        cursor.execute("insert into unrelated (note) values ('on and on')")
    assert setup.returncode == 0, setup.communicate()
    setup.communicate()
    writer.close()


def test_a_partition_detached_by_hand_ends_a_running_loader_with_the_sql_to_attach(
    source: Database,
) -> None:
    source.begin_block()
    source.must("setup")
    with source.follow() as running:
        source.insert(3)
        wait_until(lambda: source.staged() == 3, "it has stored something")
        partition = source.value("select distinct tableoid::regclass::text from cdc.change_log")
        source.execute(f"alter table cdc.change_log detach partition {partition}")
        source.insert(2)
        assert running.process.wait(timeout=120) == 20, running.said()
    remedies = [line for line in running.said().splitlines() if "attach partition" in line]
    paste(source.cluster, source.name, remedies[-1].partition("Try: ")[2])
    source.must("run", "--once")
    assert source.staged() == 5
