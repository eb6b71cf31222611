"""A server that is silent is not gone; one that is gone is noticed."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from testkit.commands import RunningLoader, short_pauses, wait_until
from testkit.pipeline import Pipeline
from testkit.proxy import Proxy
from waltally.limits import Limits


def impatient() -> Limits:
    """Seconds instead of a minute."""
    limits = replace(short_pauses(), check_source=0.1, unanswered=5.0)
    limits.ask_after, limits.explain_after, limits.explain_again = 0.1, 0.2, 0.2
    return limits


BUSY = "busy with a transaction that has no changes for us"


def test_a_large_transaction_of_others_is_waited_for(apart: Pipeline) -> None:
    """The plugin says nothing while it skips it; a new session would skip it from the start."""
    apart.limits = impatient()
    apart.must("setup")
    with apart.follow() as loader:
        apart.source.execute(
            "insert into unrelated (note) select 'x' from generate_series(1, 300000)"
        )
        apart.source.insert(3)
        loader.wait_for(BUSY)
        apart.wait_for_staged(3)
        said = loader.said().count(BUSY)
        apart.source.execute(
            "insert into unrelated (note) select 'x' from generate_series(1, 300000)"
        )
        loader.wait_for(BUSY, said + 1)
    assert loader.said().count("following the slot") == 1
    # The loader that stopped has freed the slot although its walsender was busy.
    apart.source.insert(3)
    apart.must("run", "--once")
    assert apart.staged() == 6


def test_a_network_that_swallows_everything_is_noticed(pipeline: Pipeline, tmp_path: Path) -> None:
    """Whatever answers between, as a proxy does: the second connection gets no answer either."""
    pipeline.must("setup")
    # A loader in a process of its own: the proxy must go on while it connects.
    with Proxy(pipeline.source.cluster.port) as proxy:
        through = {"PGPORT": str(proxy.port), "LOADER_TARGET_DSN": pipeline.dsns[1]}
        environment = pipeline.environment(**through, PGCONNECT_TIMEOUT="2")
        limits = replace(short_pauses(), check_source=0.1, unanswered=1.0)
        with RunningLoader(environment, tmp_path / "log", limits=limits) as loader:
            pipeline.source.insert(1)
            pipeline.wait_for_staged(1)
            proxy.blackhole()
            loader.wait_for("cannot be reached")
            assert "the second connection had no answer" in loader.said()
            proxy.restore()
            pipeline.source.insert(2)
            pipeline.wait_for_staged(3)


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
                "select pid from pg_stat_activity "
                "where datname = %s and application_name like 'waltally%%'",
                silent.name,
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
