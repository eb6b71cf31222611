"""What a server refuses ends the loader or is waited for."""

from __future__ import annotations

from contextlib import closing

import pytest

from loader.capture import handshake
from loader.capture.protocol import ProtocolError
from testkit.commands import wait_until
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.servers import Cluster, administer
from testkit.servers import connect as plain
from testkit.standbys import Family
from waltally.database import connect
from waltally.errors import LoginRefused


def test_a_target_that_takes_no_writes_is_waited_for(
    family: Family, make_pipeline: MakePipeline, cluster: Cluster
) -> None:
    pipeline = make_pipeline(cluster, family.primary)
    pipeline.begin()
    standby = family.backup()
    standby.start()
    dsn = standby.dsn(pipeline.target.name)
    pipeline.source.insert(3)
    with pipeline.start(LOADER_TARGET_DSN=dsn) as running:
        running.wait_for("The target takes no writes", 2)
        standby.run("pg_ctl", "-D", str(standby.data), "-w", "promote")
        running.wait_for("following the slot")
        with closing(plain(dsn)) as target, target.cursor() as cursor:

            def staged() -> bool:
                cursor.execute("select count(*) from cdc.change_log")
                return cursor.fetchone() == (8,)

            wait_until(staged, "the promoted target has all changes")


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"user": "stranger"}, 'role "stranger" does not exist'),
    ({"user": "locked"}, 'role "locked" is not permitted to log in'),
    ({"dbname": "nowhere"}, 'database "nowhere" does not exist'),
    ({"dbname": "closed", "user": "nobody"}, 'permission denied for database "closed"'),
    ({"options": "-cnonsense=1"}, "nonsense"),
    ({"options": "-cwork_mem=1TBB"}, "invalid value for parameter"),
]


def test_a_login_is_refused(spare: Cluster) -> None:
    administer(
        spare,
        "create role nobody login",
        "create role locked nologin",
        "create database closed",
        "revoke connect on database closed from public",
    )
    try:
        for words, said in REFUSED:
            with pytest.raises(LoginRefused, match=said):
                connect(spare.dsn(**words), "source")
            if "dbname" not in words or "user" not in words:
                with pytest.raises(LoginRefused, match=said):
                    handshake.connect_replication(spare.dsn(**words))
    finally:
        administer(spare, "drop database closed", "drop role nobody, locked")


def test_what_ended_the_stream_is_said_by_the_next_message_of_ours_too(source: Database) -> None:
    """The end arrives together with changes, which are handed over first."""
    source.must("setup")
    source.insert(3)
    stream = handshake.connect_replication(source.cluster.dsn(source.name))
    try:
        stream.start(source.slot, 0, {"format-version": "2"})
        stream.wait(10)
        source.execute(
            "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots"
            " where slot_name = %s",
            source.slot,
        )
        received = stream.receive(1_000_000)
        assert received
        with pytest.raises(ProtocolError) as caught:
            stream.send_status(0)
        assert caught.value.sqlstate == "57P01"
    finally:
        stream.finish()
