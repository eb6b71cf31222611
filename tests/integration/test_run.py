"""`loader run`: whole transactions, once each, and the slot follows."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest

from demo.cluster import Cluster
from tests.conftest import connect
from tests.second_opinion import change_log, other_slot, second_opinion
from tests.support import Database, wait_until


@contextmanager
def following(database: Database, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A loader in the background that has begun to stream."""
    process = database.start_loader("run", *arguments)
    try:
        wait_until(lambda: is_followed(database) or process.poll() is not None, "it follows")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def is_followed(database: Database) -> bool:
    return bool(
        database.value(
            "select count(*) from pg_replication_slots where slot_name = %s and active",
            database.slot,
        )
    )


def is_copying(database: Database) -> bool:
    return bool(
        database.value("select count(*) from pg_stat_progress_copy where tuples_processed > 1000")
    )


def end(process: subprocess.Popen[str]) -> str:
    """Stop the loader cleanly and return what it logged."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


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


def test_running_again_stores_nothing_again(source: Database) -> None:
    source.must("setup")
    source.insert(10)
    source.must("run", "--once")
    source.must("run", "--once")
    assert source.staged() == 10


def test_the_position_never_trails_what_the_server_has_confirmed(source: Database) -> None:
    source.must("setup")
    with following(source) as process:
        for count in range(30):
            source.insert(count + 1)
            assert source.value(
                "select s.confirmed_flush_lsn <= p.position_lsn from pg_replication_slots as s "
                "inner join cdc.slot_position as p using (slot_name) where slot_name = %s",
                source.slot,
            )
        end(process)
    assert source.staged() == sum(range(31))


def test_after_a_crash_of_the_server_redelivered_changes_are_stored_once() -> None:
    with Cluster({"checkpoint_timeout": "1h"}) as cluster:
        connect(cluster.dsn()).cursor().execute("create database d")
        database = Database(cluster, "d")
        database.load_notify()
        other = other_slot(database)
        database.must("setup")
        database.insert(7)
        database.must("run", "--once")
        position = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
        confirmed = database.value(position, database.slot)
        cluster.stop("immediate")
        cluster.start()
        database = Database(cluster, "d")
        assert database.value(position, database.slot) < confirmed, "the slot went back"
        database.insert(2)
        database.must("run", "--once")
        assert change_log(database) == second_opinion(database, other)
        assert database.staged() == 9


@pytest.mark.parametrize("place", ["the same database", "another database"])
def test_traffic_elsewhere_moves_the_slot_and_stores_nothing(source: Database, place: str) -> None:
    source.must("setup")
    elsewhere = source if place == "the same database" else Database(source.cluster, "postgres")
    elsewhere.execute("create table if not exists unrelated (note text)")
    with following(source) as process:
        elsewhere.execute("insert into unrelated (note) select 'x' from generate_series(1, 20000)")
        reached = source.value("select pg_current_wal_lsn()")

        def follows() -> bool:
            # The slot lets go of WAL at a record of running transactions, which this makes.
            source.execute("checkpoint")
            return bool(
                source.value(
                    "select restart_lsn >= %s and position_lsn >= confirmed_flush_lsn "
                    "from pg_replication_slots inner join cdc.slot_position using (slot_name) "
                    "where slot_name = %s",
                    reached,
                    source.slot,
                )
            )

        wait_until(follows, "the slot follows")
        end(process)
    assert source.staged() == 0
    moves = "select n_tup_upd from pg_stat_user_tables where relname = 'slot_position'"
    assert source.value(moves) < 20


def test_an_idle_loader_writes_no_wal_for_itself(source: Database) -> None:
    source.must("setup")
    source.insert(1000)
    with following(source) as process:
        at = "select position_lsn from cdc.slot_position"
        moves = [source.value(at)]

        def settled() -> bool:
            moves.append(source.value(at))
            return len(moves) > 200 and len(set(moves[-160:])) == 1

        wait_until(settled, "the position stands still", 60)
        end(process)


@pytest.mark.parametrize("rights", ["superuser", "least"])
def test_own_rows_are_skipped_with_the_right_and_harmless_without(
    source: Database, rights: str
) -> None:
    role = {} if rights == "superuser" else {"PGUSER": least_role(source)}
    source.must("setup", **role)
    origins = "select count(*) from pg_replication_origin where roname like %s"
    assert source.value(origins, f"%{source.slot}") == (rights == "superuser")
    source.insert(1000)
    source.must("run", "--once", **role)
    source.must("run", "--once", **role)
    assert source.staged() == 1000
    if role:
        source.must("teardown", "--purge", "--yes", **role)
        source.execute(f"drop owned by {role['PGUSER']}; drop role {role['PGUSER']}")


def least_role(source: Database) -> str:
    role = f"least_{source.name}"
    source.execute(
        f"create role {role} login replication; grant create on database {source.name} to {role}"
    )
    return role


def test_staging_may_live_in_another_database(source: Database, cluster: Cluster) -> None:
    connect(cluster.dsn()).cursor().execute(f"create database {source.name}_target")
    target = {"LOADER_TARGET_DSN": cluster.dsn(f"{source.name}_target")}
    source.must("setup", **target)
    source.insert(12)
    source.must("run", "--once", **target)
    there = connect(target["LOADER_TARGET_DSN"])
    with there.cursor() as cursor:
        cursor.execute("select count(*) from cdc.change_log")
        assert cursor.fetchone() == (12,)
    there.close()
    source.must("teardown", "--yes", **target)
    connect(cluster.dsn()).cursor().execute(f"drop database {source.name}_target with (force)")


def test_a_second_loader_gives_up_and_says_who_has_the_slot(source: Database) -> None:
    source.must("setup")
    with following(source) as process:
        second = source.start_loader("run")
        assert second.stderr is not None
        line = second.stderr.readline()
        assert "is in use" in line
        assert "trying again" in line
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=30)
        assert second.returncode == 0
        end(process)


def test_a_loader_that_lost_its_slot_is_fenced_off(source: Database) -> None:
    """A frozen loader holds rows in an open transaction; the next one must not wait for them."""
    source.must("setup")
    other = other_slot(source)
    source.insert(200_000)
    frozen = source.start_loader("run")
    try:
        wait_until(lambda: is_copying(source), "a COPY is under way")
        frozen.send_signal(signal.SIGSTOP)
        source.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots "
            "where slot_name = %s",
            source.slot,
        )
        wait_until(lambda: not is_followed(source), "the server frees the slot")
        assert source.staged() == 0
        source.must("run", "--once")
        frozen.send_signal(signal.SIGCONT)
        source.insert(3)
        wait_until(lambda: source.staged() == 200_003, "the first loader follows again")
        end(frozen)
    finally:
        frozen.kill()
        frozen.communicate()
    assert change_log(source) == second_opinion(source, other)


def test_a_running_loader_survives_a_restart_of_the_server() -> None:
    with Cluster({"fsync": "off"}) as cluster:
        connect(cluster.dsn()).cursor().execute("create database d")
        database = Database(cluster, "d")
        database.load_notify()
        other = other_slot(database)
        database.must("setup")
        with following(database) as process:
            for mode in ("fast", "immediate"):
                database.insert(10)
                cluster.stop(mode)
                cluster.start()
                database = Database(cluster, "d")
                database.insert(1)
            wait_until(lambda: database.staged() == 22, "everything is stored")
            end(process)
        assert change_log(database) == second_opinion(database, other)


def test_a_transaction_of_a_million_rows_passes_in_constant_memory(source: Database) -> None:
    source.must("setup")
    with following(source) as process:
        source.insert(1)
        wait_until(lambda: source.staged() == 1, "it has stored something")
        idle = peak_memory(process)
        source.insert(1_000_000)
        wait_until(lambda: source.staged() == 1_000_001, "all of it is stored", 300)
        assert peak_memory(process) - idle < 64 * 1024
        end(process)
    assert source.value("select count(distinct commit_lsn) from cdc.change_log") == 2
    assert source.value("select max(ordinal) from cdc.change_log") == 1_000_000


def peak_memory(process: subprocess.Popen[str]) -> int:
    """Return the most memory the process has held so far, in KiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1])


def test_a_stop_amid_a_large_transaction_leaves_nothing_of_it(source: Database) -> None:
    source.must("setup")
    source.insert(300_000)
    process = source.start_loader("run")
    wait_until(lambda: is_copying(source), "a COPY is under way")
    end(process)
    assert source.staged() == 0
    source.must("run", "--once")
    assert source.staged() == 300_000


def test_the_log_goes_on_in_the_next_partition() -> None:
    cluster = Cluster({"fsync": "off"})
    try:
        cluster.create()
        cluster.run("pg_resetwal", "-l", "0000000100000000000000FE", "-D", str(cluster.data))
        cluster.start()
        connect(cluster.dsn()).cursor().execute("create database d")
        database = Database(cluster, "d")
        database.load_notify()
        database.must("setup")
        for _ in range(4):
            database.insert(1000, text="x" * 15_000)
            database.execute("select pg_switch_wal()")
        database.must("run", "--once")
        partitions = database.execute(
            "select tableoid::regclass::text, count(*) from cdc.change_log group by 1 order by 1"
        )
    finally:
        cluster.remove()
    assert [name for name, _ in partitions] == [
        "cdc.change_log_00000000",
        "cdc.change_log_00000001",
    ]
    assert sum(count for _, count in partitions) == 4000


def test_a_slot_moved_by_somebody_else_is_refused_and_renewed(source: Database) -> None:
    source.must("setup")
    source.insert(3)
    source.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", source.slot)
    for command in (("run", "--once"), ("setup",), ("setup", "--check"), ("status",)):
        done = source.loader(*command)
        assert done.returncode == 22, command
    assert "loader setup --renew" in source.loader("run", "--once").stderr
    source.must("setup", "--renew")
    source.insert(2)
    source.must("run", "--once")
    assert source.staged() == 2


def test_a_slot_that_is_gone_is_refused(source: Database) -> None:
    source.must("setup")
    source.execute("select pg_drop_replication_slot(%s)", source.slot)
    assert source.loader("run", "--once").returncode == 21
    assert source.loader("setup").returncode == 21


def test_run_before_setup_says_so(source: Database) -> None:
    done = source.loader("run", "--once")
    assert done.returncode == 20
    assert "loader setup" in done.stderr


def test_a_newer_staging_schema_is_left_alone(source: Database) -> None:
    source.must("setup")
    source.execute("insert into cdc.schema_migration values (9999, 'from the future')")
    for command in (("setup",), ("status",)):
        assert source.loader(*command).returncode == 27


def test_status_is_a_contract(source: Database) -> None:
    assert source.loader("status", "--json").returncode == 20
    source.must("setup")
    source.insert(5)
    source.must("run", "--once")
    body = json.loads(source.must("status", "--json"))
    assert body["version"] == 1
    assert body["healthy"] is True
    assert set(body) == {
        "version", "source", "slot", "position", "models", "thresholds", "problems", "healthy",
    }  # fmt: skip
    assert body["slot"]["name"] == source.slot
    assert body["position"]["lsn"] == source.value("select position_lsn from cdc.slot_position")
    assert "healthy" in source.must("status")


def test_status_is_unhealthy_past_a_threshold(source: Database) -> None:
    source.must("setup")
    source.insert(5000)
    done = source.loader("status", "--json", LOADER_MAX_WAL_HELD_BYTES="1000")
    assert done.returncode == 3
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["kind"] == "Unhealthy"


def test_no_writer_is_held_up_by_setup_or_run(source: Database) -> None:
    """The application's writes go on under a lock timeout while everything is set up."""
    writer = psycopg2.connect(source.cluster.dsn(source.name))
    writer.autocommit = True
    cursor = writer.cursor()
    cursor.execute("set lock_timeout to '100ms'")
    setup = source.start_loader("setup")
    while setup.poll() is None:
        cursor.execute("insert into unrelated (note) values ('on and on')")
    assert setup.returncode == 0, setup.communicate()
    setup.communicate()
    writer.close()
