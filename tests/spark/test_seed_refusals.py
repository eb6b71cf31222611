"""What a seed refuses, nearly all of it before Spark starts: each with a remedy, nothing stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from psycopg2.errors import ConfigurationLimitExceeded
from waltally_jobs.common.connections import connect_target
from waltally_jobs.common.errors import CountingFailed, ReadFailed, SnapshotTooOld
from waltally_jobs.evaluation import checks, copies, ranges
from waltally_jobs.seeding import store
from waltally_jobs.seeding.job import seed
from waltally_jobs.seeding.store import acquire_seed_lock

from testkit.model import SLOT, counting, notify
from tests.spark.support import Source, WhenCounted, exported, job_settings
from waltally import errors, locks, lsn
from waltally.tables import Table

SLOT_POSITION = "update cdc.slot_position set"
PARTITIONED = """
    alter table notifications rename to former;
    create schema parts;
    create table notifications (like former) partition by list (notification_status);
    create table parts.leaf_a partition of notifications for values in ('a');
    create table parts.leaf_b partition of notifications default
"""


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("drop schema cdc cascade", errors.NotSetUp, "Nothing is set up in schema cdc"),
        ("delete from cdc.registered_model", errors.NotSetUp, "no model is registered"),
        ("delete from cdc.slot_position", errors.NotSetUp, "has no row"),
        (f"{SLOT_POSITION} system_identifier = '1'", errors.AnotherCluster, "cluster"),
        (f"{SLOT_POSITION} source_database = 'x'", errors.AnotherCluster, "log is of x of"),
        (f"{SLOT_POSITION} timeline = 7", errors.SourceBehind, "follows timeline 7"),
        (f"{SLOT_POSITION} position_lsn = 'F000/0'", errors.SourceBehind, "WAL ends"),
        (
            f"{SLOT_POSITION} (position_lsn, start_lsn) = ('0/1', '0/1')",
            errors.SlotMoved,
            "restored",
        ),
        (f"select pg_drop_replication_slot('{SLOT}')", errors.SlotLost, "no longer exists"),
        ("drop table notifications", errors.TableUnfit, "does not exist"),
        ("alter table notifications drop service_id", errors.TableUnfit, "no column service_id"),
    ],
)
def test_what_is_not_there_is_refused(
    source: Source, sql: str, error: type[errors.LoaderError], words: str
) -> None:
    source.execute(sql)
    with pytest.raises(error, match=words) as caught:
        seed(job_settings(source))
    assert caught.value.remedy


def test_a_view_in_a_table_s_place_keeps_no_other_model_from_being_counted(source: Source) -> None:
    source.register(ft_templates=counting("public.templates", "template_type"))
    source.execute("alter table templates replica identity full")
    source.fill()
    source.execute(
        "alter table notifications rename to former;"
        "create view notifications as select * from former"
    )
    code, _, err = source.seed()
    assert (code, "notifications is not a table" in err) == (17, True), err
    assert "has not counted ft_templates either" in err
    remedy = "`spark-submit spark/seed.py --model ft_templates`"
    assert remedy in err
    source.must_seed(*remedy.strip("`").split()[2:])


@contextmanager
def reader(source: Source, rights: str) -> Iterator[str]:
    """A role, and how it connects to the source."""
    source.execute(f"create role reader login {rights}")
    try:
        yield source.cluster.dsn(source.name, "reader")
    finally:
        source.execute("drop owned by reader; drop role reader")


def test_a_role_without_its_rights_is_refused_for_each_partition_too(source: Source) -> None:
    columns = "(service_id, template_id, notification_type, notification_status)"
    with reader(source, "") as dsn:
        settings = job_settings(source, dsn=dsn)
        with pytest.raises(errors.MissingRight, match="lacks REPLICATION"):
            seed(settings)
        source.execute("alter role reader replication")
        with pytest.raises(errors.MissingRight, match="may not read table"):
            seed(settings)
        source.execute(f"grant select {columns} on notifications, notification_history to reader")
        with exported(source, dsn=dsn) as held:
            held.check()
        source.execute(PARTITIONED)
        source.execute("grant select on notifications, notification_history to reader")
        with pytest.raises(errors.MissingRight, match=r"read table parts\.leaf") as caught:
            seed(settings)
        source.execute(caught.value.remedy)
        with exported(source, dsn=dsn) as held:
            leaves = {f"parts.{name}" for name in ("leaf_a", "leaf_b")}
            assert {str(leaf.table) for _, own in held.found for leaf in own} >= leaves
            locked = "select relation::regclass::text from pg_locks where pid = %s"
            assert leaves <= {name for (name,) in source.execute(locked, held.pids[1])}


def test_a_server_without_the_plugin_or_a_free_slot_is_refused(source: Source) -> None:
    dsn = source.cluster.dsn(source.name, options="-cdynamic_library_path=/nowhere")
    with pytest.raises(errors.PluginMissing), exported(source, dsn=dsn):
        pass
    made = []
    try:
        with pytest.raises(ConfigurationLimitExceeded):
            for number in range(100):
                source.execute("select pg_create_physical_replication_slot(%s)", f"s{number}")
                made.append(f"s{number}")
        with pytest.raises(errors.NoFreeSlot), exported(source):
            pass
    finally:
        for name in made:
            source.execute("select pg_drop_replication_slot(%s)", name)


def test_rows_that_cannot_be_read_are_listed_with_the_server_s_words(source: Source) -> None:
    source.fill()
    source.previous_seed()
    source.execute(
        "delete from pg_enum where enumlabel = 'sms' and enumtypid = 'notification_type'::regtype"
    )
    code, out, err = source.seed("--forget-purged")
    assert (code, "invalid internal value for enum" in out) == (0, True), err
    assert "Traceback" not in err and "\tat " not in err


def test_a_second_seed_at_the_same_time_is_refused(source: Source) -> None:
    with source.session() as other:
        other.ask("select pg_advisory_lock(%s)", (locks.key("seed", "cdc", source.slot),))
        code, _, err = source.seed("--timeout", "0.1")
    assert (code, "another seed of slot" in err) == (33, True), err


def test_an_unknown_model_is_refused_with_the_known_ones(source: Source) -> None:
    code, _, err = source.seed("--model", "ft_nothing")
    assert (code, "ft_service_stats" in err) == (2, True), err


def test_a_task_that_commits_after_the_counting_ended_counts_nothing(
    source: Source, when_counted: WhenCounted
) -> None:
    def commit(_: int) -> None:
        incoming = source.value(
            "select attrelid::regclass::text from pg_attribute where attname = 'example'"
            " and attrelid::regclass::text ~ '[.]moved_'"
        )
        source.execute(
            f"insert into {incoming} select model, part, dimensions, row_count, sums, reason,"
            f" example, 1 from {incoming}"
        )

    source.fill()
    when_counted(commit)
    seed(job_settings(source))
    assert source.baseline() == source.recount()


# What is in the log from when on.


@pytest.mark.parametrize(
    ("snapshot", "since", "baseline", "refusal"),
    [
        *((10, "0/A", 10, ""), (9, "0/A", 9, "changes of public.notifications in the log")),
        *((4, "0/2", 4, "the change log, which starts at 0/5"), (10, "0/A", 11, "stored baseline")),
        # What is not followed yet will be from the position of record on.
        *((30, None, 10, ""), (29, None, 10, "changes of public.notifications in the log")),
    ],
)
def test_a_snapshot_before_the_log_or_before_the_stored_seed_is_refused(
    source: Source, snapshot: int, since: str | None, baseline: int, refusal: str
) -> None:
    source.previous_seed()
    source.execute("update cdc.slot_position set start_lsn = '0/5', position_lsn = '0/1E'")
    source.execute(
        "update cdc.logged_table set held_since = case when table_name <> 'notifications'"
        " then '{\"*\": \"0/2\"}' else jsonb_strip_nulls(jsonb_build_object('*', %s::text)) end",
        since,
    )
    source.execute("update cdc.baseline set snapshot_lsn = %s", lsn.show(baseline))
    with closing(connect_target(job_settings(source))) as target:
        if not refusal:
            checks.not_older(target, [notify()], snapshot)
            return
        with pytest.raises(SnapshotTooOld, match=refusal):
            checks.not_older(target, [notify()], snapshot)


def test_a_seed_that_a_running_loader_is_not_ready_for_times_out(source: Source) -> None:
    source.previous_seed()
    source.execute(
        "update cdc.logged_table set held_since = jsonb_build_object('service_id', position_lsn,"
        " 'template_id', position_lsn, 'notification_type', position_lsn) from cdc.slot_position"
    )
    with source.session() as loader:
        loader.ask("select pg_advisory_lock(%s)", (locks.key("loader", "cdc", source.slot),))
        code, _, err = source.seed("--timeout", "0.5")
    assert code == 41, err
    assert "the log does not hold public.notifications, public.notification_history yet" in err
    assert source.has_previous_seed()


@pytest.mark.parametrize(
    ("sql", "at", "slot_was", "words"),
    [
        ("update cdc.baseline set snapshot_lsn = snapshot_lsn + 100", 99, {}, "stored baseline"),
        (f"{SLOT_POSITION} timeline = 2", 999, {"timeline": 1}, "promoted while the seed was cou"),
        ("select 1", 999, {"system_identifier": "1"}, "made the slot at another database while"),
        (
            "update cdc.registered_model set relation_schema = 'other'",
            *(999, {}, "changed the declaration of ft_service_stats"),
        ),
        (
            "update cdc.registered_model set declaration = declaration || '{\"rows\": 1}'",
            *(999, {}, "changed the declaration of ft_service_stats"),
        ),
    ],
)
def test_what_became_too_old_while_it_was_counted_is_not_stored(
    source: Source, sql: str, at: int, slot_was: dict[str, Any], words: str
) -> None:
    source.previous_seed()
    start = lsn.parse(source.value("select start_lsn::text from cdc.slot_position"))
    settings = job_settings(source)
    with closing(connect_target(settings)) as target, acquire_seed_lock(target, settings, []):
        models = target.registered_models(())
        counted = store.Counted(start + at, slot=replace(target.position(), **slot_was))
        source.execute(sql)
        with pytest.raises((SnapshotTooOld, CountingFailed), match=words):
            store.replace(target, settings, models, counted)
    assert source.has_previous_seed()


def test_a_reader_gives_way_to_an_exclusive_lock(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "LOCK_TIMEOUT", "50ms")
    with exported(source) as held, source.session() as altering, altering.transaction():
        altering.ask("lock table services")
        place = held.conninfo, Table("public", "services"), 1
        reader = copies.transfer(held.conninfo, held.name, "select id from public.services", *place)
        with pytest.raises(ReadFailed, match="lock timeout"):
            next(reader)
