"""One loader a slot, whoever has it and whatever restarts."""

from __future__ import annotations

import signal

from testkit.commands import wait_until
from testkit.databases import Database, application_database
from testkit.following import end, following, is_copying, is_followed
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import Cluster, connect


def test_a_second_loader_gives_up_and_says_who_has_the_slot(source: Database) -> None:
    source.must("setup")
    with following(source) as process:
        second = source.start_loader("run")
        assert second.stderr is not None
        line = second.stderr.readline()
        assert "is in use" in line
        assert "trying again" in line
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=120)
        assert second.returncode == 0
        end(process)


def test_a_loader_that_lost_its_slot_is_fenced_off(source: Database) -> None:
    """A frozen loader holds rows in an open transaction; the next one must not wait for them."""
    source.must("setup")
    other = other_slot(source)
    source.insert(100_000)
    # A session that is terminated while its client does not read stays until the client does.
    frozen = source.start_loader("run", PGOPTIONS="-c wal_sender_timeout=3s")
    try:
        wait_until(lambda: is_copying(source), "a COPY is under way")
        frozen.send_signal(signal.SIGSTOP)
        wait_until(lambda: not is_followed(source), "the server frees the slot")
        assert source.staged() == 0
        source.must("run", "--once")
        frozen.send_signal(signal.SIGCONT)
        source.insert(3)
        wait_until(lambda: source.staged() == 100_003, "the first loader follows again")
        end(frozen)
    finally:
        frozen.kill()
        frozen.communicate()
    assert change_log(source) == second_opinion(source, other)


def test_a_running_loader_survives_a_restart_of_the_server(spare: Cluster) -> None:
    with application_database(spare) as database:
        other = other_slot(database)
        database.must("setup")
        with following(database) as process:
            for mode in ("fast", "immediate"):
                database.insert(10)
                spare.stop(mode)
                spare.start()
                database.connection = connect(spare.dsn(database.name))
                database.insert(1)
            wait_until(lambda: database.staged() == 22, "everything is stored")
            end(process)
        assert change_log(database) == second_opinion(database, other)
