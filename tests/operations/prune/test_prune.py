"""`loader prune`: what nobody needs goes, whatever kills it, and the counts stay exact."""

from __future__ import annotations

import re
import signal
from contextlib import closing
from pathlib import Path

import pytest

from loader.staging import migrate
from loader.staging.prune import Outcome, prune
from testkit.commands import wait_until
from testkit.databases import Database, application_database, empty_database, paste
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, connect, connect_target
from tests.operations.prune.windows import (
    DAYS_OLD,
    make_window,
    partitions,
    require_pruned,
    tables,
    wait_until_it_waits,
    waiting_prune,
)
from waltally.settings import DEFAULT_SCHEMA, Settings

FIRST = "cdc.change_log_00000001"


def start(database: Database) -> str:
    return str(database.value("select start_lsn from cdc.slot_position"))


def planned(pipeline: Pipeline) -> list[Outcome]:
    """What a prune that keeps seven days would do."""
    dsn = pipeline.target.cluster.dsn(pipeline.target.name)
    settings = Settings.of(dsn, "", pipeline.slot, DEFAULT_SCHEMA)
    return prune(settings, 7 * 86_400, 10, dry_run=True)


def fates(pipeline: Pipeline) -> dict[str, str]:
    """What it would do with each partition of `backfill`; it keeps the pipeline's own."""
    found = {each.partition.name: each.status for each in planned(pipeline)}
    old: dict[str, str] = {
        str(number): found.pop(f"change_log_{number:08x}") for number in DAYS_OLD
    }
    assert set(found.values()) == {"kept"}
    return old


def holds(pipeline: Pipeline) -> str:
    """What holds the oldest partition that it would keep, and the remedy."""
    kept = next(each for each in planned(pipeline) if each.status == "kept")
    return f"{kept.blockers[0].reason}\n{kept.blockers[0].remedy}"


def run_remedy(pipeline: Pipeline) -> None:
    """Run the SQL of what holds the oldest partition that it would keep."""
    remedy = re.search(r"delete from .*;", holds(pipeline))
    assert remedy
    pipeline.target.execute(remedy[0])


def goes(upto: int) -> dict[str, str]:
    """The fates where the partitions up to this one would be dropped."""
    return {str(n): "would drop" if n <= upto else "kept" for n in DAYS_OLD}


def test_a_dry_run_says_what_a_prune_does_and_changes_nothing(pipeline: Pipeline) -> None:
    before = partitions(pipeline.target)
    said = pipeline.must("prune", "--keep", "7d", "--dry-run")
    assert re.search(r"would drop  change_log_00000003 +[\d.]+ kB +8\.0 d\n", said)
    assert re.search(r"^kept +change_log_00000004 .* 3\.0 d$", said, re.MULTILINE)
    kept = "What keeps change_log_00000004:\n- its newest row is 3.0 d old, --keep is 7.0 d\n"
    assert f"{kept}Would drop" in said
    assert "teardown" not in said, "the slot works"
    summary = r"Would drop 3 partitions: [\d.]+ kB, positions before 4/0"
    assert re.fullmatch(summary, said.splitlines()[-1])
    rows = [line for line in said.splitlines() if "change_log_" in line]
    assert max(map(len, rows)) < 80
    assert (partitions(pipeline.target), start(pipeline.target)) == (before, "1/0")
    outcomes = planned(pipeline)
    assert [outcome.status for outcome in outcomes][:4] == [*["would drop"] * 3, "kept"]
    assert goes(3) == fates(pipeline)
    reasons = [outcome.blockers[0].reason for outcome in outcomes[4:]]
    assert reasons[0].startswith(f"slot {pipeline.slot} still writes to it, and is at 5/")
    assert reasons[-1] == "it is the newest partition and empty: the log goes on in it"

    done = pipeline.must("prune", "--keep", "7d")
    assert re.search(r"^dropped +change_log_00000003 ", done, re.MULTILINE)
    assert "\nDropped 3 partitions: " in done
    require_pruned(pipeline.target)
    assert start(pipeline.target) == "4/0"
    again = pipeline.must("prune", "--keep", "7d")
    assert again.endswith("--keep is 7.0 d\nNothing to drop.\n")

    pipeline.source.insert(3, "sent")
    pipeline.goes_on()
    pipeline.target.execute("delete from cdc.model_watermark")
    pipeline.goes_on()
    pipeline.seed()
    pipeline.goes_on()


def test_whoever_needs_a_partition_keeps_it(pipeline: Pipeline) -> None:
    run = pipeline.target.execute
    run("insert into cdc.model_watermark values ('dev.it''s', %s, '2/10')", pipeline.slot)
    assert fates(pipeline) == goes(3), "nobody would ever apply more to it"
    # Another dbt target's copy of the fact, in a schema that is gone.
    run(
        "insert into cdc.installed_model (slot_name, model_name, fact_name, declaration, routine, "
        "reader, needs) select slot_name, 'dev.it''s', fact_name, declaration, routine, reader, "
        "needs from cdc.installed_model where model_name = 'analytics.ft_service_stats'"
    )
    assert fates(pipeline) == goes(1)
    assert (
        f"dev.it's, which does not exist, has applied slot {pipeline.slot} only up to 2/10: "
        "dbt has not installed it\n`dbt build`; or, if the model is gone for good: delete"
    ) in holds(pipeline)
    run_remedy(pipeline)
    assert fates(pipeline) == goes(3)

    run("insert into cdc.reader_position values (%s, 'an ''index', '2/10')", pipeline.slot)
    assert fates(pipeline) == goes(1)
    assert f"the reader an 'index has read slot {pipeline.slot} only up to 2/10" in holds(pipeline)
    run_remedy(pipeline)
    assert fates(pipeline) == goes(3)

    run(
        "insert into cdc.slot_position (slot_name, system_identifier, source_database, start_lsn, "
        "position_lsn) select 'other', '7', 'elsewhere', '1/0', '2/8'"
    )
    run("insert into cdc.archive_position values ('other', 'somewhere', '1/0', '9/0')")
    assert fates(pipeline) == goes(1)
    assert holds(pipeline).startswith("slot other still writes to it, and is at 2/8")
    assert "teardown" not in holds(pipeline)
    run("update cdc.slot_position set moved_at = now() - interval '9 days' where slot_name='other'")
    since = pipeline.target.value(
        "select (moved_at at time zone 'UTC')::date::text from cdc.slot_position "
        "where slot_name = 'other'"
    )
    assert f"slot other is at 2/8, where it has been since {since} " in holds(pipeline)
    assert "`loader teardown --slot other`" in holds(pipeline)
    run("delete from cdc.slot_position where slot_name = 'other'")

    run("update cdc.baseline set snapshot_lsn = '2/0'")
    assert fates(pipeline) == goes(1)
    assert (
        "there is a baseline at 2/0, and no archive holds all of it\n"
        "`spark-submit spark/archive.py --to FOLDER`; or count again, "
        "`spark-submit spark/seed.py --fact ft_service_stats`"
    ) in holds(pipeline)
    here = f"/var/backups/my log/slot={pipeline.slot}"
    run("insert into cdc.archive_position values (%s, %s, '1/0', '2/800000')", pipeline.slot, here)
    assert fates(pipeline) == goes(1)
    # Two archives do not cover a partition between them.
    run("insert into cdc.archive_position values (%s, '/b', '2/800000', '4/0')", pipeline.slot)
    assert fates(pipeline) == goes(1)
    run("delete from cdc.archive_position where location = '/b'")
    run("update cdc.archive_position set archived_lsn = '4/0'")
    assert fates(pipeline) == goes(3)
    run("update cdc.archive_position set from_lsn = '1/8'")
    assert fates(pipeline) == goes(3), "the baseline needs nothing before it"
    run("update cdc.archive_position set from_lsn = '3/0'")
    assert fates(pipeline) == goes(1)
    run("update cdc.archive_position set from_lsn = '1/0'")

    # A fact that waits for its first seed, which will be newer than all of this, holds nothing.
    run(
        "insert into cdc.fact (slot_name, fact_name, declaration, relation_schema, relation_name, "
        "needed) select slot_name, 'new', declaration, 'dev', 'new', needed from cdc.fact"
    )
    assert fates(pipeline) == goes(3)
    run("delete from cdc.fact where fact_name = 'new'")
    run("create temporary table kept as select * from cdc.baseline; delete from cdc.baseline")
    assert fates(pipeline) == goes(3), "all of it is archived"
    run("update cdc.archive_position set archived_lsn = '3/0'")
    assert "there is no baseline, and no archive holds all of it" in holds(pipeline)
    run("update cdc.archive_position set archived_lsn = '4/0'")
    run("insert into cdc.baseline select * from kept")

    run("update cdc.model_watermark set applied_lsn = '1/8'")
    assert fates(pipeline) == goes(0)
    assert "dropped" not in pipeline.must("prune")
    assert start(pipeline.target) == "1/0"


@pytest.mark.parametrize("table", ["cdc.change_log", pytest.param(FIRST, marks=pytest.mark.slow)])
def test_a_prune_that_waits_for_a_reader_is_in_nobodys_way(pipeline: Pipeline, table: str) -> None:
    dsn = pipeline.target.cluster.dsn(pipeline.target.name)
    with waiting_prune(pipeline, table) as (waiting, _), closing(connect(dsn)) as other:
        assert start(pipeline.target) == "1/0", "nothing is done by halves"
        code, said = pipeline.refused("prune", "--timeout", "1")
        assert (code, "Another prune" in said) == (29, True)
        for number in (8, 9):
            wait_until_it_waits(pipeline, table)
            other.cursor().execute("set lock_timeout to '10s'")
            other.cursor().execute("select count(*) from cdc.change_log")
            with closing(connect_target(dsn)) as target:
                make_window(target, number)
            pipeline.source.insert(2, "sent")
            pipeline.goes_on()

        waiting.send_signal(signal.SIGKILL)
        waiting.communicate()
        locks = "select count(*) from pg_locks where locktype = 'advisory' and granted"
        wait_until(lambda: pipeline.target.value(locks) == 0, "its session is gone")
        left = pipeline.loader("prune", "--timeout", "1")
        assert left.returncode == 29, left.stdout
        assert left.stdout.count("\nleft  ") == 3
        assert "What keeps change_log_00000001:\n- another session still uses" in left.stdout
    pipeline.target.execute("drop table cdc.change_log_00000008, cdc.change_log_00000009")
    pipeline.must("prune")
    require_pruned(pipeline.target)
    pipeline.goes_on()


def test_a_slot_that_comes_during_a_prune_keeps_what_it_counts_on(pipeline: Pipeline) -> None:
    with waiting_prune(pipeline) as (waiting, reader):
        pipeline.target.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
            "start_lsn, position_lsn) select 'other', '7', 'elsewhere', '1/0', '1/8'"
        )
        reader.rollback()
        said, failed = waiting.communicate(timeout=120)
    assert "- slot other still writes to it, and is at 1/8" in said, failed
    assert pipeline.target.value("select count(*) from cdc.change_log_00000001") == 3


def test_a_prune_that_is_killed_has_done_nothing(pipeline: Pipeline) -> None:
    dead = pipeline.loader("prune", WALTALLY_KILL_AT="start-moved")
    assert dead.returncode == -signal.SIGKILL
    assert (start(pipeline.target), partitions(pipeline.target)[0]) == ("1/0", "1")
    pipeline.source.insert(2, "sent")
    pipeline.goes_on()
    pipeline.must("prune")
    require_pruned(pipeline.target)
    pipeline.goes_on()


def test_tables_that_are_no_partitions_of_the_log_are_left_alone(pipeline: Pipeline) -> None:
    """One that somebody detached, and another program's with the name of one."""
    pipeline.target.execute(
        "alter table cdc.change_log detach partition cdc.change_log_00000002; "
        "create table cdc.change_log_00000000 (staged_at timestamptz, slot_name text, "
        "commit_lsn pg_lsn, ordinal bigint)"
    )
    said = pipeline.must("prune")
    assert re.search(r"^dropped +change_log_00000001 ", said, re.MULTILINE)
    assert "change_log_00000002" not in said
    assert "change_log_00000000" not in said
    assert pipeline.target.value("select count(*) from cdc.change_log_00000002") == 3
    assert pipeline.target.value("select count(*) from cdc.change_log_00000000") == 0


def test_without_a_log_there_is_a_sentence(window_five: Cluster) -> None:
    with empty_database(window_five) as database:
        missing = database.loader("prune")
        assert missing.returncode == 20
        assert "Try: run `loader setup`" in missing.stderr
        unreadable = database.loader("prune", "--keep", "soon")
        assert unreadable.returncode == 2
        assert "--keep is 'soon'" in unreadable.stderr


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
    with closing(connect_target(database.cluster.dsn(database.name), schema=schema)) as target:
        migrate.upgrade(target)
        for _ in range(2):
            make_window(target, 1)
    attached = "select count(*) from pg_inherits where inhparent = %s::regclass"
    assert database.value(attached, '"Cdc ""prod"".1".change_log') == 1
