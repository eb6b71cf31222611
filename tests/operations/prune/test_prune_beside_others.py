"""A prune is in nobody's way, and what a killed one left never comes back with old rows."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from psycopg2 import extensions

from loader.staging import migrate
from loader.staging.change_log import ChangeLog
from testkit.commands import wait_until
from testkit.databases import Database, application_database, paste
from testkit.facts import declare
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, connect
from tests.operations.prune.windows import (
    make_window,
    partitions,
    require_pruned,
    start_prune,
    tables,
    wait_for_pending,
)
from waltally.errors import Interrupted

OLDEST = "cdc.change_log_00000001"


@contextmanager
def reading(pipeline: Pipeline, table: str) -> Iterator[extensions.connection]:
    """A session that has read the table and stays in its transaction."""
    with closing(connect(pipeline.target.cluster.dsn(pipeline.target.name))) as reader:
        reader.autocommit = False
        reader.cursor().execute(f"select count(*) from {table}")
        yield reader


def writer(pipeline: Pipeline) -> ChangeLog:
    return ChangeLog(pipeline.target.cluster.dsn(pipeline.target.name), "cdc", pipeline.slot)


def test_a_loader_goes_on_while_a_prune_waits_to_drop(pipeline: Pipeline) -> None:
    assert pipeline.loader("prune", WALTALLY_KILL_AT="partition-detached").returncode < 0
    with reading(pipeline, OLDEST) as reader:
        waiting = start_prune(pipeline)
        try:
            wait_until(lambda: pipeline.target.value(_WAITS, OLDEST), "it waits for the reader")
            # Longer than a try, so that it has come to the slots' rows if it ever does.
            for _ in range(3):
                pipeline.source.insert(2, "sent")
                pipeline.must("run", "--once")
            pipeline.goes_on()
            assert waiting.poll() is None
            reader.rollback()
            assert waiting.communicate(timeout=120)[1] == ""
        finally:
            waiting.kill()
            waiting.communicate()
    require_pruned(pipeline.target)
    pipeline.goes_on()


_WAITS = "select exists (select from pg_locks where relation = to_regclass(%s) and not granted)"


def test_a_loader_makes_its_next_partition_while_a_prune_waits_to_detach(
    pipeline: Pipeline,
) -> None:
    with reading(pipeline, OLDEST) as reader:
        waiting = start_prune(pipeline)
        try:
            moved = "select start_lsn >= '2/0' from cdc.slot_position"
            wait_until(lambda: pipeline.target.value(moved), "the start has moved")
            with closing(writer(pipeline)) as log, log.connection.cursor() as cursor:
                cursor.execute("set lock_timeout to '60s'")
                make_window(log, 8)
            pipeline.source.insert(2, "sent")
            pipeline.goes_on()
            reader.rollback()
            waiting.communicate(timeout=120)
            assert waiting.returncode == 0
        finally:
            waiting.kill()
            waiting.communicate()
    assert partitions(pipeline.target)[-1] == "8"
    pipeline.target.execute("drop table cdc.change_log_00000008")
    require_pruned(pipeline.target)
    pipeline.goes_on()


def leave_detached(pipeline: Pipeline) -> None:
    assert pipeline.loader("prune", WALTALLY_KILL_AT="partition-detached").returncode < 0
    assert "1" not in partitions(pipeline.target)


def leave_pending(pipeline: Pipeline) -> None:
    with reading(pipeline, "cdc.change_log"):
        waiting = start_prune(pipeline)
        wait_for_pending(pipeline)
        waiting.send_signal(signal.SIGKILL)
        waiting.communicate()
        locks = "select count(*) from pg_locks where locktype = 'advisory' and granted"
        wait_until(lambda: pipeline.target.value(locks) == 0, "its session is gone")


LEFT = pytest.mark.parametrize("leave", [leave_detached, leave_pending])


@LEFT
def test_a_renewed_source_with_lower_wal_meets_no_old_rows(
    pipeline: Pipeline, window_one: Cluster, leave: object, tmp_path: Path, models: Models,
) -> None:  # fmt: skip
    assert callable(leave)
    leave(pipeline)
    assert pipeline.target.value(f"select count(*) from {OLDEST}") == 3
    with application_database(window_one, WAREHOUSE) as database:
        database.insert(3, "delivered")
        renewed = Pipeline(database, tmp_path, models, pipeline.target)
        renewed.must("setup", "--renew")
        renewed.seed()
        database.insert(4, "sent")
        renewed.goes_on()
        stored = "select count(*) from cdc.change_log where commit_lsn < '2/0'"
        assert pipeline.target.value(stored) == 4
        assert tables(pipeline.target) == len(partitions(pipeline.target))


@LEFT
def test_a_second_slot_with_lower_wal_meets_no_old_rows(
    pipeline: Pipeline, window_one: Cluster, leave: object, tmp_path: Path, models: Models,
) -> None:  # fmt: skip
    assert callable(leave)
    leave(pipeline)
    with application_database(window_one, "lower") as database:
        second = Pipeline(database, tmp_path, models, pipeline.target)
        # A fact of the first slot cannot be fed by a second one.
        database.declare(ft_lower=declare("public.notifications"))
        database.begin_block()
        second.must("setup")
        database.insert(4, "sent")
        second.must("run", "--once")
        slots = (
            "select slot_name, count(*) from cdc.change_log where commit_lsn < '2/0' "
            "group by slot_name"
        )
        assert pipeline.target.execute(slots) == [(second.slot, 4)]
        said = pipeline.must("prune", "--dry-run")
        assert "- slot slot_lower still writes to it" in said
        pipeline.source.insert(2, "sent")
        pipeline.must("run", "--once")


def test_a_left_partition_that_is_in_use_is_waited_for_and_not_for_long(pipeline: Pipeline) -> None:
    leave_detached(pipeline)
    with reading(pipeline, OLDEST) as reader, closing(writer(pipeline)) as log:
        with pytest.raises(Interrupted, match="change_log_00000001 that a prune left") as caught:
            make_window(log, 1)
        assert "pg_stat_activity" in caught.value.remedy
        reader.rollback()
        make_window(log, 1)
    assert pipeline.target.value(f"select count(*) from {OLDEST}") == 0


@pytest.mark.parametrize("how", ["", " concurrently"])
def test_a_partition_that_somebody_detached_is_asked_for(pipeline: Pipeline, how: str) -> None:
    name = pipeline.target.value("select max(tableoid::regclass::text) from cdc.change_log")
    detach = f"alter table cdc.change_log detach partition {name}{how}"
    if how:
        with reading(pipeline, "cdc.change_log"):
            pipeline.target.execute("set lock_timeout to '10ms'")
            with pytest.raises(Exception, match="lock timeout"):
                pipeline.target.execute(detach)
            pipeline.target.execute("reset lock_timeout")
    else:
        pipeline.target.execute(detach)
    pipeline.source.insert(2, "sent")
    code, said = pipeline.refused("run", "--once")
    assert code == 20
    assert f"{name.removeprefix('cdc.')} was detached from the change log, and not by" in said
    paste(pipeline.target.cluster, pipeline.target.name, said.split("Try: ")[1].splitlines()[0])
    pipeline.goes_on()


def test_a_mark_goes_where_a_log_begins_anew(pipeline: Pipeline) -> None:
    marked = "select obj_description(%s::regclass)"
    assert pipeline.loader("prune", WALTALLY_KILL_AT="start-moved").returncode < 0
    assert "never attach it" in pipeline.target.value(marked, OLDEST)
    pipeline.must("setup")
    assert "never attach it" in pipeline.target.value(marked, OLDEST)
    pipeline.must("setup", "--renew")
    assert pipeline.target.value(marked, OLDEST) is None


def test_a_setup_waits_for_a_prune_only_where_a_log_begins_anew(pipeline: Pipeline) -> None:
    with reading(pipeline, "cdc.change_log") as reader:
        waiting = start_prune(pipeline)
        try:
            wait_for_pending(pipeline)
            pipeline.must("setup")
            renewing = pipeline.source.start_loader("setup", "--renew")
            try:
                tries = (
                    "select count(*) from pg_stat_activity where pid <> pg_backend_pid() "
                    "and query ~ 'try_advisory_lock_shared'"
                )
                # Its session shows the statement for a moment every 0.2 s, so look all the time.
                wait_until(lambda: pipeline.target.value(tries) == 1, "it waits", pause=0)
                assert renewing.poll() is None
                reader.rollback()
                waiting.communicate(timeout=120)
                said = renewing.communicate(timeout=120)[1]
                assert renewing.returncode == 0, said
            finally:
                renewing.kill()
                renewing.communicate()
        finally:
            waiting.kill()
            waiting.communicate()


def test_any_name_of_a_schema_has_partitions(database: Database) -> None:
    schema = 'Cdc "prod".1'
    dsn = database.cluster.dsn(database.name)
    migrate.upgrade(database.connection, schema)
    for _ in range(2):
        with closing(ChangeLog(dsn, schema, "any")) as log:
            make_window(log, 1, schema)
    attached = "select count(*) from pg_inherits where inhparent = %s::regclass"
    assert database.value(attached, '"Cdc ""prod"".1".change_log') == 1
