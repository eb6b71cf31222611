"""What a seed refuses, nearly all of it before Spark starts: each with a remedy, nothing stored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest
from psycopg2.errors import ConfigurationLimitExceeded
from waltally_jobs.common.connections import connect_target
from waltally_jobs.common.errors import BeginAgain, CountingFailed, SnapshotTooOld
from waltally_jobs.evaluation import checks
from waltally_jobs.seeding import store
from waltally_jobs.seeding.job import seed
from waltally_jobs.seeding.store import acquire_seed_lock

from testkit.model import SLOT, notify
from testkit.servers import connect
from testkit.waiting import wait_until
from tests.spark.support import Source, exported, job_settings, meanwhile
from waltally import errors, locks, lsn

LOCK = "select pg_advisory_lock({})"
SLOT_POSITION = "update cdc.slot_position set"
PARTITIONED = """
    alter table notifications rename to former;
    create schema parts;
    create table notifications (like former) partition by list (notification_status);
    create table parts.leaf_a partition of notifications for values in ('a');
    create table parts.leaf_b partition of notifications default
"""


@pytest.mark.parametrize(
    ("sql", "code", "words", "flags"),
    [
        ("drop schema cdc cascade", 20, "Nothing is set up in schema cdc", ()),
        ("delete from cdc.installed_model", 20, "no model is installed", ()),
        ("delete from cdc.slot_position", 20, "has no row", ()),
        (f"{SLOT_POSITION} system_identifier = '1'", 23, "cluster", ()),
        (f"{SLOT_POSITION} source_database = 'x'", 23, "log is of x of", ()),
        (f"{SLOT_POSITION} timeline = 7", 23, "follows timeline 7", ()),
        (f"{SLOT_POSITION} position_lsn = 'F000/0'", 23, "WAL ends", ()),
        (f"{SLOT_POSITION} (position_lsn, start_lsn) = ('0/1', '0/1')", 21, "restored", ()),
        (f"select pg_drop_replication_slot('{SLOT}')", 21, "no longer exists", ()),
        ("drop table notifications", 17, "does not exist", ()),
        ("alter table notifications drop service_id", 17, "no column service_id", ()),
        ("select", 2, "ft_service_stats", ("--model", "ft_nothing")),
        (
            LOCK.format(locks.key("seed", "cdc", SLOT)),
            *(24, "another seed", ("--timeout", "0.1", "--forget-purged")),
        ),
        # A running loader that is not ready for it.
        (
            LOCK.format(locks.key("loader", "cdc", SLOT))
            + "; update cdc.logged_table set held_since = jsonb_build_object('service_id', position"
            "_lsn, 'template_id', position_lsn, 'notification_type', position_lsn)"
            " from cdc.slot_position",
            *(41, "the log does not hold public.notifications, public.notification_history yet"),
            ("--timeout", "0.5"),
        ),
    ],
)
def test_what_is_not_there_is_refused(
    source: Source, sql: str, code: int, words: str, flags: tuple[str, ...]
) -> None:
    source.previous_seed()
    source.execute(sql)
    found, _, err = source.seed(*flags)
    assert (found, words in err, "\nTry: " in err) == (code, True, True), err
    assert "schema cdc" in sql or source.has_previous_seed()


def test_a_role_without_its_rights_is_refused_for_each_partition_too(source: Source) -> None:
    columns = "(service_id, template_id, notification_type, notification_status)"
    tables = "notifications, notification_history to reader"
    source.execute("create role reader login")
    settings = job_settings(source, dsn=source.cluster.dsn(source.name, "reader"))
    try:
        with pytest.raises(errors.MissingRight, match="lacks REPLICATION"):
            seed(settings)
        source.execute("alter role reader replication")
        with pytest.raises(errors.MissingRight, match="may not read table"):
            seed(settings)
        source.execute(f"grant select {columns} on {tables}")
        with exported(source, dsn=settings.source) as held:
            held.check()
        source.execute(f"{PARTITIONED}; grant select on {tables}")
        with pytest.raises(errors.MissingRight, match=r"read table parts\.leaf") as caught:
            seed(settings)
        source.execute(caught.value.remedy)
        with exported(source, dsn=settings.source) as held:
            found = {str(leaf.table) for _, leaves in held.found for leaf in leaves}
            assert found >= {"parts.leaf_a", "parts.leaf_b"}
    finally:
        source.execute("drop owned by reader; drop role reader")


def test_a_server_without_the_plugin_or_a_free_slot_is_refused(source: Source) -> None:
    dsn = source.cluster.dsn(source.name, options="-cdynamic_library_path=/nowhere")
    with pytest.raises(errors.PluginMissing), exported(source, dsn=dsn):
        pass
    with suppress(ConfigurationLimitExceeded):
        for number in range(100):
            source.execute("select pg_create_physical_replication_slot(%s)", f"full_{number}")
    try:
        with pytest.raises(errors.NoFreeSlot), exported(source):
            pass
    finally:
        source.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            " where slot_name ~ '^full_'"
        )


def test_a_task_that_commits_after_the_counting_ended_counts_nothing(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(_: store.Counted) -> None:
        incoming = source.value(
            "select attrelid::regclass::text from pg_attribute where attname = 'example'"
            " and attrelid::regclass::text ~ '[.]moved_'"
        )
        source.execute(
            f"insert into {incoming} select model, part, dimensions, row_count, sums, reason,"
            f" example, 1 from {incoming}"
        )

    source.fill()
    meanwhile(monkeypatch, "seeding.job.count", after=commit)
    seed(job_settings(source))
    source.must_end_as_a_recount()


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
    kind = SnapshotTooOld if "baseline" in refusal else BeginAgain
    is_refused = pytest.raises(kind, match=refusal) if refusal else nullcontext()
    with closing(connect_target(job_settings(source))) as target, is_refused:
        checks.not_older(target, [notify()], snapshot)


@pytest.mark.parametrize(
    ("sql", "at", "slot_was", "words"),
    [
        ("update cdc.baseline set snapshot_lsn = snapshot_lsn + 100", 99, {}, "stored baseline"),
        (f"{SLOT_POSITION} timeline = 2", 999, {"timeline": 1}, "went over to another server"),
        ("select 1", 999, {"system_identifier": "1"}, "went over to another server"),
        (
            "update cdc.installed_model set declaration = declaration || '{\"rows\": 1}'",
            *(999, {}, "changed the query of ft_service_stats"),
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


def test_a_seed_that_stores_and_a_build_do_not_wait_for_each_other(source: Source) -> None:
    """dbt has the model's lock from the begin of its transaction, and then takes the reader's."""
    source.previous_seed()
    settings = replace(job_settings(source), forget_purged=True)
    with (
        closing(connect_target(settings)) as target,
        closing(connect(settings.target)) as builder,
        ThreadPoolExecutor(1) as pool,
    ):
        models = target.registered_models(())
        builder.autocommit = False
        locks.wait(builder, "model", str(models[0].relation))
        start = lsn.parse(source.value("select start_lsn::text from cdc.slot_position"))
        with acquire_seed_lock(target, settings, models):
            storing = pool.submit(
                store.replace, target, settings, models, store.Counted(start + 999)
            )
            waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            wait_until(lambda: source.value(waiting) == 1)
            builder.ask(
                "select pg_advisory_xact_lock(cdc.lock_key('reader', cdc.reader_name(%s)))",
                (SLOT,),
            )
            builder.commit()
            assert set(storing.result()) == {models[0].name}


def test_rows_that_cannot_be_read_are_listed_with_the_server_s_words(source: Source) -> None:
    source.fill()
    source.previous_seed()
    source.execute(
        "delete from pg_enum where enumlabel = 'sms' and enumtypid = 'notification_type'::regtype"
    )
    code, out, err = source.seed("--forget-purged")
    assert (code, "invalid internal value for enum" in out) == (0, True), err
    assert "Traceback" not in err and "\tat " not in err
