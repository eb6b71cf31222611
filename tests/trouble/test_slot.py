"""The slot is lost, dropped, remade or moved: refused at once, and the remedy makes it right."""

from __future__ import annotations

import signal

from demo.cluster import Cluster
from tests.support import Database, wait_until
from tests.trouble.conftest import Staging
from tests.trouble.scene import Scene


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


def test_a_slot_lost_to_max_slot_wal_keep_size(staging: Staging, rough: Cluster) -> None:
    scene = staging(rough)
    scene.begin()
    try:
        with scene.follow() as running:
            scene.source.insert(2)
            scene.wait_for_staged(7)
            running.process.send_signal(signal.SIGSTOP)
            scene.source.execute("alter system set max_slot_wal_keep_size to '16MB'")
            scene.source.execute("select pg_reload_conf()")
            outgrow(scene.source, scene.slot)
            running.process.send_signal(signal.SIGCONT)
            code, said = running.refuses()
        assert code == 21
        assert f"everything before {scene.position()} is stored, what came after it is lost" in said
        assert scene.refused("run", "--once") == (21, said)
        assert scene.refused("setup") == (21, said)
        assert scene.loader("status").returncode == 21
    finally:
        scene.source.execute("alter system reset max_slot_wal_keep_size")
        scene.source.execute("select pg_reload_conf()")
    scene.recovers_from(said)


def test_a_slot_dropped_while_the_loader_runs(scene: Scene) -> None:
    scene.begin()
    with scene.follow() as running:
        free_the_slot(scene.source)
        scene.source.insert(3)
        code, said = running.refuses()
    assert code == 21
    assert "no longer exists" in said
    assert "is stored, what came after it may be lost" in said
    scene.recovers_from(said)


def test_a_slot_dropped_while_the_loader_is_stopped(scene: Scene) -> None:
    scene.begin()
    free_the_slot(scene.source)
    scene.source.insert(3)
    code, said = scene.refused("run")
    assert code == 21
    assert f"everything before {scene.position()} is stored" in said
    scene.recovers_from(said)


def test_a_slot_made_again_behind_our_back(scene: Scene) -> None:
    scene.begin()
    free_the_slot(scene.source)
    scene.source.insert(3)
    scene.source.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", scene.slot)
    code, said = scene.refused("run")
    assert code == 22
    assert f"everything before {scene.position()} is stored, changes between are lost" in said
    assert scene.refused("setup") == (22, said)
    scene.recovers_from(said)


def test_a_slot_made_again_at_once_with_nothing_written(scene: Scene) -> None:
    scene.begin()
    scene.must("run", "--once")
    free_the_slot(scene.source)
    scene.source.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", scene.slot)
    assert scene.refused("run")[0] == 22


def test_a_slot_made_again_with_another_plugin(scene: Scene) -> None:
    scene.begin()
    free_the_slot(scene.source)
    scene.source.execute(
        "select pg_create_logical_replication_slot(%s, 'test_decoding')", scene.slot
    )
    code, said = scene.refused("run")
    assert code == 22
    assert "test_decoding" in said
    scene.recovers_from(said)


def test_a_slot_read_by_somebody_else(scene: Scene) -> None:
    """pg_logical_slot_get_changes takes the changes with it."""
    scene.begin()
    scene.source.insert(3)
    taken = scene.source.execute(
        "select 1 from pg_logical_slot_get_changes(%s, null, null)", scene.slot
    )
    assert taken
    code, said = scene.refused("run")
    assert code == 22
    scene.recovers_from(said)


def test_a_slot_advanced_between_two_runs_of_a_loader(scene: Scene) -> None:
    scene.begin()
    with scene.follow() as running:
        running.end()
    scene.source.insert(3)
    scene.source.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", scene.slot)
    code, said = scene.refused("run", "--once")
    assert code == 22
    scene.recovers_from(said)


def test_a_slot_peeked_at_is_no_trouble(scene: Scene) -> None:
    scene.begin()
    scene.source.insert(3)
    scene.source.execute("select 1 from pg_logical_slot_peek_changes(%s, null, null)", scene.slot)
    scene.goes_on()
