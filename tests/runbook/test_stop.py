"""The loader stands still for long, and the WAL that the slot holds for it."""

from __future__ import annotations

import shutil

import pytest

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.servers import Cluster
from tests.runbook.conftest import Operating
from tests.runbook.procedure import Operator


@pytest.fixture
def operator(make_pipeline: MakePipeline, spare: Cluster, operating: Operating) -> Operator:
    """At work on a server that may be configured, with traffic."""
    made = operating(make_pipeline(spare), "full")
    made.start()
    made.write()
    return made


def limit(database: Database, size: str | None) -> None:
    change = f"set max_slot_wal_keep_size = '{size}'" if size else "reset max_slot_wal_keep_size"
    database.execute(f"alter system {change}")
    database.execute("select pg_reload_conf()")


def write_wal(database: Database) -> None:
    """Fill 16 files of 16 MB, more than the server would keep by itself."""
    for _ in range(16):
        database.execute("select pg_logical_emit_message(false, 'x', repeat('x', 1000000))")
        database.execute("select pg_switch_wal()")
    database.execute("checkpoint")


def on_disk(database: Database) -> int:
    return int(database.value("select sum(size) from pg_ls_waldir()"))


def wal_status(operator: Operator) -> str | None:
    found = operator.pipeline.source.execute(
        "select wal_status from pg_replication_slots where slot_name = %s", operator.pipeline.slot
    )
    return found[0][0] if found else None


def test_a_stop_that_the_disk_has_room_for(operator: Operator) -> None:
    source = operator.pipeline.source
    limit(source, "1GB")
    try:
        operator.carry_out("Stop for a week", 0)
        write_wal(source)
        operator.write()
        assert wal_status(operator) == "extended"
        operator.carry_out("Stop for a week", 1)
        operator.write()
    finally:
        limit(source, None)
    operator.ends_exact()


@pytest.mark.slow
def test_a_stop_that_gives_the_slot_up_and_wal_that_must_go_at_once(operator: Operator) -> None:
    pipeline, source = operator.pipeline, operator.pipeline.source
    cluster = source.cluster
    operator.carry_out("Stop for a week", 2)
    assert wal_status(operator) is None
    operator.write()
    operator.carry_out("Renew")
    operator.write()
    operator.stop()
    write_wal(source)
    held = on_disk(source)
    operator.carry_out("The source's disk is full", 0)
    assert on_disk(source) < held / 2
    operator.carry_out("Renew")
    operator.write()
    # Also while the server is down.
    operator.stop()
    write_wal(source)
    held = on_disk(source)
    operator.pause()
    cluster.stop("immediate")

    def remove(command: str) -> None:
        assert '"$PGDATA/pg_replslot/waltally"' in command
        shutil.rmtree(cluster.data / "pg_replslot" / pipeline.slot)

    def start(command: str) -> None:
        cluster.start()
        pipeline.source = pipeline.target = pipeline.source.reconnect()

    operator.instead = {"rm -r": remove, "systemctl start postgresql": start}
    operator.carry_out("The source's disk is full", 1)
    wait_until(lambda: on_disk(pipeline.source) < held / 2, "the server removes the WAL")
    assert pipeline.refused("run")[0] == 21
    operator.resume()
    operator.carry_out("Renew")
    operator.write()
    operator.ends_exact()
