"""`loader run`: whole transactions, once each."""

from __future__ import annotations

import re
import signal

import psycopg2
import pytest

from testkit.commands import wait_until
from testkit.databases import Database, application_database, paste
from testkit.following import is_copying, peak_memory
from testkit.pipeline import Pipeline
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import Server, connect


def test_the_log_holds_what_the_slot_delivers_and_nothing_else(source: Database) -> None:
    other = other_slot(source)
    source.must("setup")
    source.insert(5)
    source.execute(
        "begin; update notifications set notification_status = 'sent'; savepoint a;"
        "delete from notifications; rollback to a; truncate notification_history; commit"
    )
    source.execute("begin; delete from notifications; rollback")
    source.execute("insert into unrelated (note) values ('nothing to us')")
    for text in ('quote " and \\ backslash', "tab\tnewline\nbell\x07", "emoji 🐘", "x" * 300_000):
        source.insert(1, text=text)
    source.must("run", "--once")
    assert change_log(source) == second_opinion(source, other)
    assert source.staged() == 5 + 5 + 1 + 4


def test_a_log_has_a_line_with_age_lag_and_build_and_says_that_it_stops(pipeline: Pipeline) -> None:
    source = pipeline.source
    pipeline.must("setup")
    pipeline.limits.log_progress = 0.2
    with pipeline.start("--build") as running:
        running.wait_for("following the slot")

        def is_built() -> bool:
            source.insert(1)
            return "built 0." in running.said()

        wait_until(is_built, "a line says so")
        lock = connect(source.cluster.dsn(source.name))
        lock.autocommit = False
        lock.cursor().execute(
            "select pg_advisory_xact_lock(cdc.lock_key('slot', %s))", (source.slot,)
        )
        source.insert(1)
        wait_until(lambda: "a build began" in running.said(), "a build waits")
        running.process.send_signal(signal.SIGTERM)
        running.wait_for("INFO stopping after this build")
        lock.close()
        running.end()
    progress = [line for line in running.said().splitlines() if "newest change" in line]
    form = r"newest change [\d.]+ s ago, lag [\d.]+ \w+, built [\d.]+ s ago, \d+/s, \d+ changes?, "
    assert any(re.search(form + "position [0-9A-F]+/[0-9A-F]+$", line) for line in progress), (
        progress
    )
    assert re.search(
        r"INFO stored \d+ changes? in \d+ batch(es)? over [\d.]+ s, position", running.said()
    )


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
        running.end()
    assert source.staged() == 1
    with source.follow() as running:
        wait_until(lambda: source.staged() == rows + 1, "all of it is stored", 300)
        assert peak_memory(running) - idle < 64 * 1024
        running.end()
    assert source.value("select count(distinct commit_lsn) from cdc.change_log") == 2
    assert source.value("select max(ordinal) from cdc.change_log") == rows


def test_the_log_goes_on_in_the_next_partition() -> None:
    cluster = Server({"fsync": "off"})
    try:
        cluster.create()
        cluster.run("pg_resetwal", "-l", "0000000100000000000000FD", "-D", str(cluster.data))
        cluster.start()
        database = application_database(cluster)
        database.must("setup")
        # A log of 4 GiB goes on in partitions of 256 MiB.
        database.execute("update cdc.slot_position set start_lsn = '0/10'")
        for _ in range(4):
            database.begin_block()
            database.insert(1000, text="x" * 15_000)
        database.must("run", "--once")
        partitions = database.execute(
            "select tableoid::regclass::text, count(*) from cdc.change_log group by 1 order by 1"
        )
    finally:
        cluster.remove()
    assert [name for name, _ in partitions] == [
        *("cdc.change_log_00000000f", "cdc.change_log_000000010")
    ]
    assert sum(count for _, count in partitions) == 4000


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


def test_another_program_s_table_with_a_partition_s_name_stays(source: Database) -> None:
    source.begin_block()
    source.must("setup")
    source.insert(3)
    present = source.value("select (pg_current_wal_lsn() - '0/0')::bigint >> 24")
    names = [f"change_log_{present + number:010x}" for number in range(4)]
    for name in names:
        source.execute(f"create table cdc.{name} (slot_name text)")
    for _ in range(2):
        done = source.loader("run", "--once")
        assert done.returncode == 20, done.stderr
        paste(source.cluster, source.name, done.stderr.partition("Try: ")[2].splitlines()[0])
    source.must("run", "--once")
    assert source.staged() == 3
    others = "select count(*) from pg_class where relname ~ '^change_log_[0-9a-f]{10}_other$'"
    assert source.value(others) == 2


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
