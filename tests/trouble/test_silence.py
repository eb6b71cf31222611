"""A server that is silent is not gone; one that is gone is noticed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import datetime

from testkit.commands import short_pauses, wait_until
from testkit.pipeline import Pipeline
from testkit.proxy import Proxy


def test_a_large_transaction_of_others_is_waited_for(apart: Pipeline) -> None:
    """The plugin says nothing while it skips it; a new session would skip it from the start."""
    busy = "busy with a transaction that has no changes for us"
    # Seconds instead of a minute.
    apart.limits = replace(short_pauses(), check_source=0.1, unanswered=5.0)
    apart.limits.ask_after = 0.1
    apart.limits.explain_after = apart.limits.explain_again = 0.2
    apart.must("setup")
    with apart.follow() as loader:
        others = "insert into unrelated (note) select 'x' from generate_series(1, 300000)"
        apart.source.execute(others)
        apart.source.insert(3)
        loader.wait_for(busy)
        apart.wait_for_staged(3)
        said = loader.said().count(busy)
        apart.source.execute(others)
        loader.wait_for(busy, said + 1)
    assert loader.said().count("following the slot") == 1
    # The loader that stopped has freed the slot although its walsender was busy.
    apart.source.insert(3)
    apart.must("run", "--once")
    assert apart.staged() == 6


def test_a_network_that_swallows_everything_is_noticed(pipeline: Pipeline) -> None:
    """Whatever answers between, as a proxy does: the second connection gets no answer either."""
    pipeline.must("setup")
    pipeline.limits = replace(short_pauses(), check_source=0.1, unanswered=1.0)
    with Proxy(pipeline.source.cluster.port) as proxy:
        through = {"PGPORT": str(proxy.port), "LOADER_TARGET_DSN": pipeline.dsns[1]}
        with pipeline.follow(**through, PGCONNECT_TIMEOUT="2") as loader:
            pipeline.source.insert(1)
            pipeline.wait_for_staged(1)
            proxy.blackhole()
            loader.wait_for("cannot be reached")
            assert "the second connection had no answer" in loader.said()
            proxy.restore()
            pipeline.source.insert(2)
            pipeline.wait_for_staged(3)


def test_what_a_loader_that_hangs_has_not_read_is_not_said_to_be_counted(
    pipeline: Pipeline,
) -> None:
    """It is connected, and little WAL is unread: as of one that has nothing to read."""
    pipeline.begin(2)
    # At last the server ends its session, or others write more: that is not waited for.
    says = (
        "select count(*) from pg_replication_slots inner join cdc.slot_position using (slot_name)"
        " where slot_name = %s and active_pid is not null"
        " and pg_current_wal_lsn() - position_lsn <= 16384"
        " and (cdc.exact_as_of(slot_name) < %s) = %s"
    )

    def wait_for_exact(after: datetime, is_before: bool) -> None:
        wait_until(lambda: pipeline.target.value(says, pipeline.slot, after, is_before) == 1)

    with pipeline.follow("--build") as loader:
        # What is written to a page for the first time since a checkpoint is more WAL.
        pipeline.source.insert(1)
        wait_for_exact(pipeline.source.value("select clock_timestamp()"), False)
        loader.process.send_signal(signal.SIGSTOP)
        pipeline.source.insert(1)
        committed = pipeline.source.value("select clock_timestamp()")
        try:
            wait_for_exact(committed, True)
        finally:
            loader.process.send_signal(signal.SIGCONT)
        wait_for_exact(committed, False)
    assert pipeline.model() == pipeline.recount()


def test_the_watch_connects_again(pipeline: Pipeline) -> None:
    """Its end alone does not end the stream."""
    pipeline.limits.check_source = 0.1
    pipeline.must("setup")
    watchers = (
        "select pid from pg_stat_activity where application_name = 'waltally loader' "
        "and query ~ 'synchronous_standby_names|with recursive listed' and pid <> %s "
        "and pid <> pg_backend_pid() and datname = current_database()"
    )
    with pipeline.follow() as loader:
        pipeline.source.insert(1)
        pipeline.wait_for_staged(1)
        ((before,),) = wait_until(lambda: pipeline.source.execute(watchers, 0), "it looks")
        pipeline.source.execute("select pg_terminate_backend(%s)", before)
        wait_until(lambda: pipeline.source.execute(watchers, before), "it looks again")
        pipeline.source.insert(2)
        pipeline.wait_for_staged(3)
    assert loader.said().count("following the slot") == 1


def test_a_loader_that_is_told_to_stop_ends_although_a_server_does_not_answer(
    apart: Pipeline,
) -> None:
    """Its threads wait for that server, so nothing else would end them."""
    apart.limits = replace(short_pauses(), log_progress=0.1, stop_seconds=1.0)
    apart.must("setup")
    held = "select exists (select from pg_replication_slots where slot_name = %s and active)"
    for number, silent in enumerate((apart.target, apart.source), 1):
        with apart.follow("--build") as loader:
            apart.source.insert(1)
            apart.wait_for_staged(2 * number - 1)
            stopped = silent.execute(
                "select pid from pg_stat_activity where datname = current_database() "
                "and application_name like 'waltally%'"
            )
            assert len(stopped) > 1
            for (pid,) in stopped:
                os.kill(pid, signal.SIGSTOP)
            try:
                apart.source.insert(1)
                if silent is apart.target:
                    loader.wait_for("a batch has been open")
                loader.process.send_signal(signal.SIGTERM)
                assert loader.process.wait(timeout=30) == 0, loader.said()
            finally:
                for (pid,) in stopped:
                    os.kill(pid, signal.SIGCONT)
        assert "not stopped after 1 s, because a server does not answer" in loader.said()
        wait_until(lambda: not apart.source.value(held, apart.slot), "the slot is free")
        apart.must("run", "--once")
        assert apart.staged() == 2 * number
