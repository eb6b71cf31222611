"""The slot is lost, dropped, remade or moved: refused at once, and the remedy makes it right."""

from __future__ import annotations

import signal

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster


def free_the_slot(database: Database) -> None:
    """End whoever follows the slot, and drop it before the loader is back."""

    def dropped() -> bool:
        database.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots "
            "where slot_name = %s and active_pid is not null",
            database.slot,
        )
        database.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
            "where slot_name = %s and active_pid is null",
            database.slot,
        )
        return not database.execute(
            "select 1 from pg_replication_slots where slot_name = %s", database.slot
        )

    wait_until(dropped, "the slot is dropped")


def outgrow(database: Database, slot: str) -> None:
    """Write WAL until the server gives the slot up."""

    def lost() -> bool:
        database.execute(
            "select pg_logical_emit_message(false, 'x', repeat('x', 1000000)); "
            "select pg_switch_wal(); checkpoint"
        )
        status = "select wal_status from pg_replication_slots where slot_name = %s"
        return bool(database.value(status, slot) == "lost")

    wait_until(lost, "the slot is lost")


def test_a_slot_lost_to_max_slot_wal_keep_size(make_pipeline: MakePipeline, spare: Cluster) -> None:
    pipeline = make_pipeline(spare)
    pipeline.begin()
    try:
        with pipeline.follow() as running:
            pipeline.source.insert(2)
            pipeline.wait_for_staged(7)
            running.process.send_signal(signal.SIGSTOP)
            pipeline.source.execute("alter system set max_slot_wal_keep_size to '16MB'")
            pipeline.source.execute("select pg_reload_conf()")
            outgrow(pipeline.source, pipeline.slot)
            running.process.send_signal(signal.SIGCONT)
            code, said = running.refuses()
        assert code == 21
        assert (
            f"everything before {pipeline.position()} is stored, what came after it is lost" in said
        )
        assert pipeline.refused("run", "--once") == (21, said)
        assert pipeline.refused("setup") == (21, said)
        assert pipeline.loader("status").returncode == 21
    finally:
        pipeline.source.execute("alter system reset max_slot_wal_keep_size")
        pipeline.source.execute("select pg_reload_conf()")
    pipeline.recovers_from(said)


def test_a_slot_dropped_while_the_loader_runs(pipeline: Pipeline) -> None:
    pipeline.begin()
    with pipeline.follow() as running:
        free_the_slot(pipeline.source)
        pipeline.source.insert(3)
        code, said = running.refuses()
    assert code == 21
    assert "no longer exists" in said
    assert "is stored, what came after it may be lost" in said
    pipeline.recovers_from(said)


def test_a_slot_dropped_while_the_loader_is_stopped(pipeline: Pipeline) -> None:
    pipeline.begin()
    free_the_slot(pipeline.source)
    pipeline.source.insert(3)
    code, said = pipeline.refused("run")
    assert code == 21
    assert f"everything before {pipeline.position()} is stored" in said
    pipeline.recovers_from(said)


def test_a_slot_made_again_behind_our_back(pipeline: Pipeline) -> None:
    pipeline.begin()
    free_the_slot(pipeline.source)
    pipeline.source.insert(3)
    pipeline.source.execute(
        "select pg_create_logical_replication_slot(%s, 'wal2json')", pipeline.slot
    )
    code, said = pipeline.refused("run")
    assert code == 22
    assert f"everything before {pipeline.position()} is stored, changes between are lost" in said
    assert pipeline.refused("setup") == (22, said)
    pipeline.recovers_from(said)


def test_a_slot_made_again_at_once_with_nothing_written(pipeline: Pipeline) -> None:
    pipeline.begin()
    pipeline.must("run", "--once")
    free_the_slot(pipeline.source)
    pipeline.source.execute(
        "select pg_create_logical_replication_slot(%s, 'wal2json')", pipeline.slot
    )
    assert pipeline.refused("run")[0] == 22


def test_a_slot_made_again_with_another_plugin(pipeline: Pipeline) -> None:
    pipeline.begin()
    free_the_slot(pipeline.source)
    pipeline.source.execute(
        "select pg_create_logical_replication_slot(%s, 'test_decoding')", pipeline.slot
    )
    code, said = pipeline.refused("run")
    assert code == 22
    assert "test_decoding" in said
    pipeline.recovers_from(said)


def test_a_slot_read_by_somebody_else(pipeline: Pipeline) -> None:
    """pg_logical_slot_get_changes takes the changes with it."""
    pipeline.begin()
    pipeline.source.insert(3)
    taken = pipeline.source.execute(
        "select 1 from pg_logical_slot_get_changes(%s, null, null)", pipeline.slot
    )
    assert taken
    code, said = pipeline.refused("run")
    assert code == 22
    pipeline.recovers_from(said)


def test_a_slot_advanced_between_two_runs_of_a_loader(pipeline: Pipeline) -> None:
    pipeline.begin()
    with pipeline.follow() as running:
        running.end()
    pipeline.source.insert(3)
    pipeline.source.execute(
        "select pg_replication_slot_advance(%s, pg_current_wal_lsn())", pipeline.slot
    )
    code, said = pipeline.refused("run", "--once")
    assert code == 22
    pipeline.recovers_from(said)


def test_a_slot_peeked_at_is_no_trouble(pipeline: Pipeline) -> None:
    pipeline.begin()
    pipeline.source.insert(3)
    pipeline.source.execute(
        "select 1 from pg_logical_slot_peek_changes(%s, null, null)", pipeline.slot
    )
    pipeline.goes_on()
