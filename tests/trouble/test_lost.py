"""A slot that is lost or moved, a server that lacks commits: refused, and the remedy helps."""

from __future__ import annotations

import re
import signal

import pytest

from testkit import recount
from testkit.commands import wait_until
from testkit.databases import ARCHIVE, Database, paste
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, administer, configured
from testkit.standbys import Family, from_18, now_the_source


def is_outgrown(database: Database) -> bool:
    """Write WAL, and say whether the server has given the slot up."""
    database.execute(
        "select pg_logical_emit_message(false, 'x', repeat('x', 1000000)); "
        "select pg_switch_wal(); checkpoint"
    )
    return bool(database.value("select wal_status = 'lost' from pg_replication_slots"))


def test_a_slot_lost_to_max_slot_wal_keep_size(make_pipeline: MakePipeline, spare: Cluster) -> None:
    pipeline = make_pipeline(spare)
    pipeline.begin()
    with pipeline.follow() as running:
        pipeline.source.insert(2)
        pipeline.wait_for_staged(7)
        running.process.send_signal(signal.SIGSTOP)
        with configured(spare, max_slot_wal_keep_size="'16MB'"):
            wait_until(lambda: is_outgrown(pipeline.source), "the slot is lost")
        running.process.send_signal(signal.SIGCONT)
        code, said = running.refuses()
    assert code == 21
    assert f"everything before {pipeline.position()} is stored, what came after it is lost" in said
    assert pipeline.refused("run", "--once") == (21, said)
    assert pipeline.refused("setup") == (21, said)
    assert pipeline.loader("status").returncode == 21
    pipeline.recovers_from(said)


INSERT = "insert"
DROP = "select pg_drop_replication_slot('{slot}')"
MAKE = "select pg_create_logical_replication_slot('{slot}', 'wal2json')"
MAKE_OTHER = MAKE.replace("wal2json", "test_decoding")
# It takes the changes with it.
READ = "select count(*) from pg_logical_slot_get_changes('{slot}', null, null)"
WHILE_STOPPED = (
    ((DROP, INSERT), 21, "is stored, what came after it may be lost"),
    ((DROP, INSERT, MAKE), 21, "is stored, changes between are lost"),
    ((DROP, MAKE_OTHER), 21, "test_decoding"),
    ((INSERT, READ), 21, ""),
)
"""What somebody does, and what the next loader says."""


def test_a_slot_that_is_not_as_the_loader_left_it_is_refused(pipeline: Pipeline) -> None:
    pipeline.begin()
    for statements, expected, words in WHILE_STOPPED:
        pipeline.must("run", "--once")
        for statement in statements:
            if statement == INSERT:
                pipeline.source.insert(3)
            else:
                pipeline.source.execute(statement.format(slot=pipeline.slot))
        said = pipeline.refused_with(expected, words, "run")
        assert f"everything before {pipeline.position()} is stored" in said
        assert pipeline.loader("status").returncode == expected
        if statements != (DROP, INSERT):
            assert pipeline.refused("setup") == (21, said)
        if MAKE_OTHER in statements:
            assert "once it is not needed and gone" in said
            pipeline.source.execute(DROP.format(slot=pipeline.slot))
        pipeline.run_remedy(said)
        assert pipeline.differences() == [], statements
    pipeline.source.insert(4, "sent")
    pipeline.goes_on()


TIMEOUT = "idle_replication_slot_timeout"


@from_18
def test_a_slot_that_nobody_followed_for_too_long(
    make_pipeline: MakePipeline, spare: Cluster
) -> None:
    pipeline = make_pipeline(spare)
    pipeline.begin()
    reload = "select pg_reload_conf()"
    administer(spare, f"alter system set {TIMEOUT} = '1h'", reload)
    assert f"nobody has followed it for 1h ({TIMEOUT})" in pipeline.must("setup")
    assert pipeline.loader("status").returncode == 0
    administer(spare, f"alter system set {TIMEOUT} = '5s'", reload)
    wait_until(lambda: pipeline.loader("status").returncode == 3, "status warns of it")
    assert f"the source gives it up ({TIMEOUT})" in pipeline.loader("status").stdout

    lost = "select count(*) from pg_replication_slots where wal_status = 'lost'"
    wait_until(lambda: pipeline.source.execute("checkpoint") or pipeline.source.value(lost), "lost")
    said = pipeline.refused_with(21, "(idle_timeout)", "run")
    slot = pipeline.status()["slot"]
    assert (slot["invalidation_reason"], slot["idle_timeout_seconds"]) == ("idle_timeout", 5)
    remedy = re.search(r"Try: (alter system .*) -- on the source", said)
    assert remedy
    paste(spare, "postgres", remedy[1])
    pipeline.recovers_from(said)
    assert TIMEOUT not in pipeline.must("setup")


@pytest.mark.parametrize(
    "is_promoted", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["promoted", "restored"]
)
def test_a_copy_of_the_source_s_disk_is_refused(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster, is_promoted: bool
) -> None:
    """It has the slot and the identifier: its timeline's history or the WAL's end tell."""
    pipeline = make_pipeline(family.primary, cluster)
    pipeline.begin()
    family.primary.stop()
    copy = family.disk()
    family.primary.start()
    pipeline.source = pipeline.source.reconnect()
    pipeline.source.insert(2 if is_promoted else 3000)
    pipeline.must("run", "--once")
    position = pipeline.position()
    family.primary.stop()
    copy.start_promoted() if is_promoted else copy.start()
    with now_the_source(pipeline, copy):
        if is_promoted:
            pipeline.source.insert(3000)
            is_beyond = "select pg_current_wal_lsn() > %s::pg_lsn"
            assert pipeline.source.value(is_beyond, position), "its WAL has grown"
        code, said = pipeline.refused("run", "--once")
        assert code == 23
        broken = "select broken is not null from cdc.slot_position"
        assert pipeline.target.value(broken), "cdc.wait_for knows it"
        assert ("was promoted or restored at" in said) == is_promoted
        assert f"everything before {position} is stored" in said
        assert pipeline.refused("setup") == (23, said)
        assert pipeline.loader("status").returncode == 23
        pipeline.recovers_from(said)
        assert not pipeline.target.value(broken)
    family.primary.start()
    if is_promoted:
        pipeline.source = pipeline.source.reconnect()
        pipeline.source.insert(4000)
        pipeline.refused_with(23, "former primary", "run")


def test_a_standby_is_refused_by_every_command(family: Family, source: Database) -> None:
    source.must("setup")
    servers = {
        "LOADER_SOURCE_DSN": family.standby({}).dsn(),
        "LOADER_TARGET_DSN": source.cluster.dsn(source.name),
    }
    for command in (("run",), ("setup",), ("setup", "--check"), ("status",), ("teardown", "--yes")):
        said = source.refused_with(11, "The source is a standby", *command, **servers)
        assert "name the primary in LOADER_SOURCE_DSN" in said


def test_a_target_restored_from_an_older_backup(apart: Pipeline) -> None:
    """What was purged before the backup is counted nowhere else, and stays counted."""
    apart.begin()
    apart.source.execute(ARCHIVE)
    apart.catch_up()
    apart.source.execute("delete from notification_history")
    apart.catch_up()
    purged = {group: archived for group, (_, archived) in apart.model().items() if archived}
    assert purged
    cluster, name = apart.target.cluster, apart.target.name
    sessions = f"from pg_stat_activity where datname = '{name}'"
    administer(
        cluster,
        f"select pg_terminate_backend(pid) {sessions}",
        f"create database backup template {name}",
    )
    apart.source.insert(3)
    apart.must("run", "--once")
    administer(
        cluster, f"drop database {name} with (force)", f"alter database backup rename to {name}"
    )
    apart.target = apart.target.reconnect()
    position = apart.position()
    for command in (("run",), ("setup",)):
        said = apart.refused_with(21, "the target was restored", *command)
        assert f"everything before {position} is stored, changes between are lost" in said
    apart.must("setup", "--renew")
    apart.spark_job("spark-submit spark/seed.py")
    apart.build()
    live = recount.expected(apart.dsns[0])
    assert apart.model() == {
        group: (live.get(group, (0, 0))[0], purged.get(group, 0)) for group in {*live, *purged}
    }
