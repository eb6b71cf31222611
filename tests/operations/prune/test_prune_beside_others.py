"""A prune is in nobody's way, and what a killed one left never comes back with old rows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from loader.staging import migrate
from loader.staging.change_log import ChangeLog
from testkit.databases import Database, application_database, paste
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from tests.operations.prune.windows import (
    make_window,
    partitions,
    tables,
    waiting_prune,
)


def test_a_renewed_source_with_lower_wal_meets_no_old_rows(
    pipeline: Pipeline, window_one: Cluster, tmp_path: Path, models: Models
) -> None:
    """Its log is in one partition with old rows and in others that are gone."""
    pipeline.target.execute("drop table cdc.change_log_00000002")
    with application_database(window_one, WAREHOUSE) as database:
        database.insert(3, "delivered")
        renewed = Pipeline(database, tmp_path, models, pipeline.target)
        renewed.must("setup", "--renew")
        renewed.seed()
        database.insert(4, "sent")
        renewed.goes_on()
        stored = "select count(*) from cdc.change_log where commit_lsn >= '1/8'"
        assert pipeline.target.value(stored) == 4
        assert tables(pipeline.target) == len(partitions(pipeline.target))


def test_a_log_begins_anew_while_a_prune_waits(pipeline: Pipeline) -> None:
    with waiting_prune(pipeline) as (waiting, reader):
        pipeline.must("setup", "--renew")
        began = pipeline.target.value("select start_lsn from cdc.slot_position")
        reader.rollback()
        assert waiting.communicate(timeout=120)[1] == ""
    assert pipeline.target.value("select start_lsn from cdc.slot_position") == began
    pipeline.source.insert(2, "sent")
    pipeline.must("run", "--once")


def test_a_partition_that_somebody_detached_is_asked_for(pipeline: Pipeline) -> None:
    name = pipeline.target.value("select max(tableoid::regclass::text) from cdc.change_log")
    pipeline.target.execute(f"alter table cdc.change_log detach partition {name}")
    pipeline.source.insert(2, "sent")
    code, said = pipeline.refused("run", "--once")
    assert code == 20
    assert f"{name.removeprefix('cdc.')} was detached from the change log, and not by" in said
    paste(pipeline.target.cluster, pipeline.target.name, said.split("Try: ")[1].splitlines()[0])
    pipeline.goes_on()


def test_any_name_of_a_schema_has_partitions(database: Database) -> None:
    schema = 'Cdc "prod".1'
    dsn = database.cluster.dsn(database.name)
    migrate.upgrade(database.connection, schema)
    for _ in range(2):
        with closing(ChangeLog(dsn, schema, "any")) as log:
            make_window(log, 1, schema)
    attached = "select count(*) from pg_inherits where inhparent = %s::regclass"
    assert database.value(attached, '"Cdc ""prod"".1".change_log') == 1
