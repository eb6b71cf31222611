from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
from common import arrow_source
from common.connections import connect
from common.errors import CountingFailed, SnapshotTooOld
from common.settings import Settings
from counting import checks, snapshot
from seeding import store
from seeding.incoming import acquire_seed_lock
from seeding.job import seed

from loader.staging.records import SlotPosition
from testkit.facts import NOTIFY, notify
from testkit.servers import Cluster
from tests.spark.support import Source
from waltally import errors, facts, lsn
from waltally.tables import Table


def settings(source: Source, dsn: str = "", *names: str) -> Settings:
    return Settings(dsn or source.dsn, source.dsn, source.slot, "cdc", names, timeout=5)


def live_alone() -> facts.Fact:
    """A fact of the table notifications alone."""
    [live, _] = NOTIFY["tables"]
    [count, _] = NOTIFY["measures"]
    declaration = {**NOTIFY, "tables": [live], "measures": [count]}
    return facts.parse("ft_live", Table("analytics", "ft_live"), declaration)


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("drop schema cdc cascade", errors.NotSetUp, "lacks"),
        ("drop table cdc.baseline_group", errors.NotSetUp, "lacks baseline_group"),
        ("delete from cdc.fact", errors.NotSetUp, "no fact is registered"),
        ("delete from cdc.slot_position", errors.NotSetUp, "has no row"),
        ("update cdc.slot_position set system_identifier = '1'", errors.AnotherCluster, "cluster"),
        ("update cdc.slot_position set source_database = 'x'", errors.AnotherCluster, "database x"),
        ("update cdc.slot_position set timeline = 7", errors.SourceBehind, "follows timeline 7"),
        ("drop table notifications", errors.TableUnfit, "does not exist"),
        ("alter table notifications drop service_id", errors.TableUnfit, "no column service_id"),
        (
            "drop table notifications; create view notifications as select 1 as id",
            errors.TableUnfit,
            "not a table",
        ),
    ],
)
def test_what_is_not_there_is_refused(
    source: Source, sql: str, error: type[errors.LoaderError], words: str
) -> None:
    with source.connect() as connection:
        connection.execute(sql)
    with pytest.raises(error, match=words) as caught:
        seed(settings(source))
    assert caught.value.remedy


def test_a_role_without_its_rights_is_refused(source: Source) -> None:
    as_reader = source.cluster.dsn(source.name, "reader")
    with source.connect() as connection:
        connection.execute("create role reader login")
        try:
            with pytest.raises(errors.MissingRight, match="lacks REPLICATION"):
                seed(settings(source, as_reader))
            connection.execute("alter role reader replication")
            with pytest.raises(errors.MissingRight, match="may not read table"):
                seed(settings(source, as_reader))
            connection.execute(
                "grant select (service_id, template_id, notification_type, notification_status)"
                " on notifications, notification_history to reader"
            )
            with (
                closing(connect(as_reader, "LOADER_SOURCE_DSN")) as monitor,
                snapshot.export(
                    settings(source, as_reader), [notify()], monitor, print
                ) as exported,
            ):
                exported.check()
        finally:
            connection.execute("drop owned by reader; drop role reader")


def test_a_role_needs_the_right_to_read_each_partition(source: Source) -> None:
    as_reader = source.cluster.dsn(source.name, "reader")
    with source.connect() as connection:
        connection.execute(
            "create role reader login replication; create schema parts;"
            "alter table notifications rename to former;"
            "create table notifications (like former) partition by list (notification_status);"
            "create table parts.leaf partition of notifications default;"
            "grant select on notifications, notification_history to reader"
        )
        try:
            with pytest.raises(errors.MissingRight, match=r"read table parts\.leaf") as caught:
                seed(settings(source, as_reader))
            connection.execute(caught.value.remedy.encode())
            with (
                closing(connect(as_reader, "LOADER_SOURCE_DSN")) as monitor,
                snapshot.export(
                    settings(source, as_reader), [notify()], monitor, print
                ) as exported,
            ):
                checks.tables(monitor, [notify()])
                assert [str(leaf.table) for leaf in exported.found[0][1]] == ["parts.leaf"]
        finally:
            connection.execute("drop owned by reader; drop role reader")


def test_a_wrong_password_is_refused_and_not_repeated(source: Source) -> None:
    hba = source.cluster.data / "pg_hba.conf"
    before = hba.read_text()
    with source.connect() as connection:
        connection.execute("create role locked login password 'right'")
        hba.write_text("host all locked 127.0.0.1/32 scram-sha-256\n" + before)
        try:
            connection.execute("select pg_reload_conf()")
            with pytest.raises(errors.CannotConnect) as caught:
                # Until the server has read the file, it lets anybody in.
                dsn = source.cluster.dsn(source.name, "locked", password="guess")
                while True:
                    connect(dsn, "LOADER_SOURCE_DSN").close()
            assert "password authentication failed" in str(caught.value)
            assert "guess" not in caught.value.sentence
        finally:
            hba.write_text(before)
            connection.execute("select pg_reload_conf()")
            connection.execute("drop role locked")


def test_a_server_without_wal2json_is_refused(source: Source) -> None:
    dsn = source.cluster.dsn(source.name, options="-cdynamic_library_path=/nowhere")
    with (
        closing(connect(dsn, "LOADER_SOURCE_DSN")) as monitor,
        pytest.raises(errors.PluginMissing),
        snapshot.export(settings(source, dsn), [notify()], monitor, print),
    ):
        pass


def test_a_server_without_a_free_slot_is_refused(source: Source) -> None:
    made = []
    with closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor:
        try:
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                for number in range(100):
                    monitor.execute(
                        "select pg_create_physical_replication_slot(%s)", (f"s{number}",)
                    )
                    made.append(f"s{number}")
            with (
                pytest.raises(errors.NoFreeSlot),
                snapshot.export(settings(source), [notify()], monitor, print),
            ):
                pass
        finally:
            for name in made:
                monitor.execute("select pg_drop_replication_slot(%s)", (name,))


def test_a_server_below_logical_and_a_standby_are_refused() -> None:
    with Cluster({"wal_level": "replica", "fsync": "off"}) as other:
        with closing(connect(other.dsn(), "LOADER_SOURCE_DSN")) as connection:
            row = connection.execute("select system_identifier from pg_control_system()").fetchone()
            assert row is not None
            position = SlotPosition("s", str(row[0]), "postgres", 0, 0)
            with pytest.raises(errors.WalLevelTooLow, match="wal_level = replica"):
                checks.source(connection, position)
        other.stop()
        (other.data / "standby.signal").touch()
        other.start()
        with (
            closing(connect(other.dsn(), "LOADER_SOURCE_DSN")) as connection,
            pytest.raises(errors.IsStandby),
        ):
            checks.source(connection, position)


def test_a_snapshot_before_the_log_or_before_the_stored_seed_is_refused() -> None:
    checks.position(10, 10, 10)
    with pytest.raises(SnapshotTooOld, match="change log"):
        checks.position(9, 10, None)
    with pytest.raises(SnapshotTooOld, match="stored baseline"):
        checks.position(10, 9, 11)


def test_an_older_snapshot_does_not_replace_a_newer_one(source: Source) -> None:
    source.previous_seed()
    with closing(connect(source.dsn, "LOADER_TARGET_DSN")) as target:
        [(start,)] = source.ask("select start_lsn::text from cdc.slot_position")
        target.execute("update cdc.baseline set snapshot_lsn = snapshot_lsn + 100")
        with (
            acquire_seed_lock(target, settings(source), print),
            pytest.raises(SnapshotTooOld),
        ):
            counted = store.Counted(lsn.parse(start) + 99)
            store.replace(target, settings(source), [notify()], counted)
    assert source.has_previous_seed()


def test_a_baseline_of_a_timeline_that_the_loader_has_left_is_not_stored(source: Source) -> None:
    source.previous_seed()
    with closing(connect(source.dsn, "LOADER_TARGET_DSN")) as target:
        [(start,)] = source.ask("select start_lsn::text from cdc.slot_position")
        target.execute("update cdc.slot_position set timeline = 2")
        counted = store.Counted(lsn.parse(start) + 999, timeline=1)
        with (
            acquire_seed_lock(target, settings(source), print),
            pytest.raises(CountingFailed, match="promoted while the seed was counting"),
        ):
            store.replace(target, settings(source), [notify()], counted)
    assert source.has_previous_seed()


def test_a_reader_gives_way_to_an_exclusive_lock(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_source, "LOCK_TIMEOUT", "50ms")
    with (
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        snapshot.export(settings(source), [live_alone()], monitor, print) as exported,
        source.connect() as altering,
        altering.transaction(),
    ):
        altering.execute("lock table notification_history")
        readers = arrow_source.batches(
            exported.conninfo, "select id::text from public.notification_history", exported.name
        )
        with pytest.raises(arrow_source.ReadFailed, match="lock timeout"):
            next(readers)


def test_leaves_of_a_partitioned_table_are_read_one_by_one(source: Source) -> None:
    with source.connect() as connection:
        connection.execute(
            "drop table notification_history;"
            "create table notification_history (service_id uuid, template_id uuid,"
            " notification_type text, notification_status text) partition by list"
            " (notification_status);"
            "create table leaf_a partition of notification_history for values in ('a');"
            "create table leaf_b partition of notification_history default"
        )
    with (
        closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as monitor,
        snapshot.export(settings(source), [notify()], monitor, print) as exported,
    ):
        assert [str(leaf.table) for leaf in exported.found[1][1]] == [
            "public.leaf_a",
            "public.leaf_b",
        ]
        locked = source.ask(
            "select relation::regclass::text from pg_locks where pid = %s and relation::regclass"
            "::text ~ '^leaf' order by 1",
            exported.pids[1],
        )
        assert locked == [("leaf_a",), ("leaf_b",)]
