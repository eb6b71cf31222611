"""`loader prune`: what nobody needs goes, whatever kills it, and the counts stay exact."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from demo import recount
from demo.cluster import Cluster
from demo.comparison import staged_transactions
from loader.build.models import Models
from loader.staging.prune import Outcome, prune
from tests.acceptance.pipeline import Pipeline as BusySource
from tests.fixtures.pipelines import WAREHOUSE
from tests.operations.prune.windows import (
    KEPT,
    partitions,
    server,
    start_prune,
    tables,
    wait_for_pending,
)
from tests.support import Database, paste, wait_until
from tests.support.databases import empty_database
from tests.support.pipeline import Pipeline
from tests.support.servers import connect
from waltally.errors import BuildFailed
from waltally.settings import DEFAULT_SCHEMA, Settings


def start(database: Database) -> str:
    return str(database.value("select start_lsn from cdc.slot_position"))


def planned(pipeline: Pipeline) -> list[Outcome]:
    """What a prune that keeps seven days would do."""
    dsn = pipeline.target.cluster.dsn(pipeline.target.name)
    settings = Settings.of(dsn, "", pipeline.slot, DEFAULT_SCHEMA)
    return prune(settings, 7 * 86_400, 10, dry_run=True)


def fates(pipeline: Pipeline) -> dict[str, str]:
    """What it would do with each partition, by its number."""
    return {each.partition.name[-1]: each.status for each in planned(pipeline)}


def holds(pipeline: Pipeline) -> str:
    """What holds the oldest partition that it would keep, and the remedy."""
    kept = next(each for each in planned(pipeline) if each.status == "kept")
    return f"{kept.blockers[0].reason}\n{kept.blockers[0].remedy}"


def goes(upto: int) -> dict[str, str]:
    """The fates where the partitions up to this one would be dropped."""
    return {str(n): "would drop" if n <= upto else "kept" for n in range(1, 7)}


def test_a_dry_run_says_what_a_prune_does_and_changes_nothing(pipeline: Pipeline) -> None:
    before = partitions(pipeline.target)
    said = pipeline.must("prune", "--keep", "7d", "--dry-run")
    assert re.search(r"change_log_00000003  3/0 to 4/0  [\d.]+ MB  newest row 8d old: would", said)
    assert "newest row 3d old: kept\n  its newest row is 3d old, --keep is 7d" in said
    assert "6/0 to 7/0" in said
    assert "it is the newest partition" in said
    assert (partitions(pipeline.target), start(pipeline.target)) == (before, "1/0")
    listed = json.loads(pipeline.must("prune", "--dry-run", "--json"))["partitions"]
    assert {each["name"][-1]: each["status"] for each in listed} == goes(3) == fates(pipeline)
    assert listed[0].keys() == {
        *("name", "from_lsn", "to_lsn", "bytes", "newest_row_age_seconds", "status", "reasons")
    }
    assert 8 * 86_400 <= listed[2]["newest_row_age_seconds"] < 8 * 86_400 + 600

    done = pipeline.must("prune", "--keep", "7d")
    assert re.search(r"00000003  .*: dropped", done)
    assert (partitions(pipeline.target), tables(pipeline.target)) == (KEPT, 3)
    assert start(pipeline.target) == "4/0"
    assert "dropped" not in pipeline.must("prune", "--keep", "7d")

    pipeline.source.insert(3, "sent")
    pipeline.goes_on()
    pipeline.target.execute("delete from cdc.model_watermark")
    pipeline.goes_on()
    pipeline.seed()
    pipeline.goes_on()


def test_whoever_needs_a_partition_keeps_it(pipeline: Pipeline) -> None:
    run = pipeline.target.execute
    run("insert into cdc.model_watermark values ('dev.it''s', %s, '2/10')", pipeline.slot)
    assert fates(pipeline) == goes(1)
    said = holds(pipeline)
    assert (
        f"dev.it's, which does not exist, has applied slot {pipeline.slot} only up to 2/10" in said
    )
    remedy = re.search(r"delete from .*;", said)
    assert remedy
    run(remedy[0])
    assert fates(pipeline) == goes(3)

    run(
        "insert into cdc.slot_position (slot_name, system_identifier, source_database, start_lsn, "
        "position_lsn) select 'other', '7', 'elsewhere', '1/0', '2/8'"
    )
    run("insert into cdc.model_watermark values ('analytics.ft_service_stats', 'other', '9/0')")
    run("insert into cdc.archive_position values ('other', 'somewhere', '1/0', '9/0')")
    assert fates(pipeline) == goes(1)
    assert "slot other is at 2/8" in holds(pipeline)
    run("delete from cdc.slot_position where slot_name = 'other'")

    run("update cdc.baseline set snapshot_lsn = '2/0'")
    assert fates(pipeline) == goes(1)
    assert "there is a baseline at 2/0 and no archive of it" in holds(pipeline)
    run("insert into cdc.archive_position values (%s, 'here', '1/0', '4/0')", pipeline.slot)
    assert fates(pipeline) == goes(3)

    run("update cdc.baseline set snapshot_lsn = '9/0', system_identifier = '7'")
    run("delete from cdc.archive_position")
    assert fates(pipeline) == goes(0)
    assert "dropped" not in pipeline.must("prune")
    assert start(pipeline.target) == "1/0"


def test_another_session_is_not_held_up_and_a_killed_prune_is_finished(pipeline: Pipeline) -> None:
    dsn = pipeline.target.cluster.dsn(pipeline.target.name)
    reader, other = connect(dsn), connect(dsn)
    reader.autocommit = False
    reader.cursor().execute("select count(*) from cdc.change_log")
    waiting = start_prune(pipeline)
    try:
        wait_for_pending(pipeline)
        assert start(pipeline.target) == "2/0", "no rebuild may count on the partition any more"

        code, said = pipeline.refused("prune", "--timeout", "1")
        assert (code, "Another prune" in said) == (29, True)
        other.cursor().execute("set lock_timeout to '5s'")
        other.cursor().execute("select count(*) from cdc.change_log")
        pipeline.source.insert(2, "sent")
        pipeline.goes_on()

        waiting.send_signal(signal.SIGKILL)
        waiting.communicate()
        locks = "select count(*) from pg_locks where locktype = 'advisory' and granted"
        wait_until(lambda: pipeline.target.value(locks) == 0, "its session is gone")
        left = pipeline.loader("prune", "--timeout", "1")
        assert left.returncode == 29, left.stdout
        assert left.stdout.count(": left\n") == 3
        assert "another session still uses the log" in left.stdout
        assert "change_log_00000001 goes first" in left.stdout
        # One that never saw the partition is in nobody's way, though it uses the log.
        other.autocommit = False
        other.cursor().execute("select count(*) from cdc.change_log")
        reader.rollback()
        left = pipeline.loader("prune", "--timeout", "1")
        assert (left.returncode, tables(pipeline.target)) == (29, 5)
    finally:
        waiting.kill()
        waiting.communicate()
        reader.close()
        other.close()
    pipeline.must("prune")
    assert (partitions(pipeline.target), tables(pipeline.target)) == (KEPT, 3)
    pipeline.goes_on()


def test_a_slot_that_comes_during_a_prune_keeps_what_it_counts_on(pipeline: Pipeline) -> None:
    reader = connect(pipeline.target.cluster.dsn(pipeline.target.name))
    reader.autocommit = False
    reader.cursor().execute("select count(*) from cdc.change_log")
    waiting = start_prune(pipeline)
    try:
        wait_for_pending(pipeline)
        pipeline.target.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
            "start_lsn, position_lsn) select 'other', '7', 'elsewhere', '1/0', '9/0'"
        )
        reader.close()
        said, _ = waiting.communicate(timeout=120)
    finally:
        waiting.kill()
        waiting.communicate()
    assert waiting.returncode == 29
    assert "the log of slot other starts before its end, at 1/0" in said
    assert pipeline.target.value("select count(*) from cdc.change_log_00000001") == 3


def test_a_prune_killed_at_any_place_is_finished_by_the_next(pipeline: Pipeline) -> None:
    for place, attached in (("start-moved", "1"), ("partition-detached", "2")):
        dead = pipeline.loader("prune", WALTALLY_KILL_AT=place)
        assert dead.returncode == -signal.SIGKILL
        assert (start(pipeline.target), partitions(pipeline.target)[0]) == ("2/0", attached)
        pipeline.source.insert(2, "sent")
        pipeline.goes_on()
    assert tables(pipeline.target) == 6
    pipeline.must("prune")
    assert (partitions(pipeline.target), tables(pipeline.target)) == (KEPT, 3)
    pipeline.goes_on()


def test_a_table_that_somebody_detached_is_left_alone(pipeline: Pipeline) -> None:
    pipeline.target.execute("alter table cdc.change_log detach partition cdc.change_log_00000002")
    said = pipeline.must("prune")
    assert "change_log_00000001  1/0 to 2/0" in said
    assert "it is detached, but the log of slot" in said
    assert pipeline.target.value("select count(*) from cdc.change_log_00000002") == 3
    remedy = next(line for line in said.splitlines() if "attach partition" in line)
    paste(pipeline.target.cluster, pipeline.target.name, remedy.partition("Try: ")[2])
    assert "2" in partitions(pipeline.target)


def test_a_table_of_another_program_is_not_taken_for_a_partition(pipeline: Pipeline) -> None:
    """Below where the log starts now nobody counts on a partition, so prune would drop it."""
    pipeline.target.execute("update cdc.slot_position set start_lsn = '2/0'")
    pipeline.target.execute(
        "create table cdc.change_log_00000000 (staged_at timestamptz, slot_name text, "
        "commit_lsn pg_lsn, ordinal bigint)"
    )
    said = pipeline.must("prune")
    assert "change_log_00000001" in said
    assert "change_log_00000000" not in said
    assert tables(pipeline.target) == len(KEPT) + 1


def test_without_a_log_there_is_a_sentence(window_five: Cluster) -> None:
    with empty_database(window_five) as database:
        missing = database.loader("prune")
        assert missing.returncode == 20
        assert "Try: run `loader setup`" in missing.stderr
        unreadable = database.loader("prune", "--keep", "soon")
        assert unreadable.returncode == 2
        assert "--keep is 'soon'" in unreadable.stderr


@pytest.mark.slow
def test_amid_traffic_and_builds_the_fact_stays_exact(tmp_path: Path, models: Models) -> None:
    with (
        server("0000000100000003000000FC") as cluster,
        empty_database(cluster, WAREHOUSE) as database,
    ):
        busy = BusySource(cluster, database, tmp_path, "full", 53)
        pipeline = Pipeline(database, tmp_path, models)
        pipeline.must("setup")
        assert start(database) < "4/0"
        pipeline.seed()
        busy.traffic.start()
        loader = busy.start("loader", "run", "--build")
        try:
            while not database.value("select pg_current_wal_lsn() >= '4/0'"):
                busy.write()
                # The rest of the segment goes by unwritten.
                database.execute("select pg_switch_wal()")
            busy.write()
            wait_until(lambda: applied(database, "4/0"), "all models are in the next window")
            # The seed is too old for a rebuild: the archive must hold what goes.
            said = pipeline.must("prune", "--keep", "0s")
            assert "there is a baseline at 3/" in said
            database.execute(
                "insert into cdc.archive_position "
                "select slot_name, 'somewhere', start_lsn, '4/0' from cdc.slot_position"
            )
            transactions = staged_transactions(busy.dsn, database.slot, "ft_service_stats")
            pipeline.must("prune", "--keep", "0s", "--timeout", "60")
            assert partitions(database)[0] == "4"
            busy.write()
        finally:
            busy.traffic.stop()
            loader.send_signal(signal.SIGTERM)
            _, log = loader.communicate(timeout=120)
        assert loader.returncode == 0, log
        pipeline.must("run", "--once")
        pipeline.build()
        transactions += staged_transactions(busy.dsn, database.slot, "ft_service_stats")
        assert recount.fact(busy.dsn) == recount.expected(busy.dsn, transactions)

        # A rebuild has nothing to stand on until there is a new seed.
        database.execute("delete from cdc.model_watermark")
        with pytest.raises(BuildFailed, match="after the baseline at 3/"):
            pipeline.build()
        pipeline.seed()
        pipeline.build()
        assert recount.fact(busy.dsn) == recount.expected(busy.dsn)


def applied(database: Database, position: str) -> bool:
    """Whether the fact has applied everything before the position."""
    marks = "select count(*) from cdc.model_watermark where applied_lsn >= %s"
    return bool(database.value(marks, position) == 1)
