"""A server that sends again what was stored already, because a crash set the slot back."""

from __future__ import annotations

import random

from testkit.databases import Database
from testkit.second_opinion import change_log, other_slot, second_opinion
from testkit.servers import Cluster, connect


def test_redelivered_transactions_change_nothing() -> None:
    dice = random.Random(8)
    with Cluster({"checkpoint_timeout": "1h", "max_wal_size": "4GB"}) as cluster:
        connect(cluster.dsn()).cursor().execute("create database d")
        database = Database(cluster, "d")
        database.load_notify()
        other = other_slot(database)
        database.must("setup")
        went_back = 0
        for _ in range(3):
            for _ in range(dice.randint(1, 5)):
                database.insert(dice.randint(1, 20))
                database.execute("update notifications set notification_status = 'sent'")
            database.must("run", "--once")
            stored = change_log(database)
            confirmed = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
            before = database.value(confirmed, database.slot)
            cluster.stop("immediate")
            cluster.start()
            database = Database(cluster, "d")
            went_back += database.value(confirmed, database.slot) != before
            database.must("run", "--once")
            assert change_log(database)[: len(stored)] == stored
        assert went_back > 1, "the server delivered something again"
        assert change_log(database) == second_opinion(database, other)
