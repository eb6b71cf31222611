"""`loader prune`: what nobody needs goes, whatever kills it, and the counts stay exact."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from loader.staging.make_partition import make_partition
from loader.staging.partitions import PARTITION_NAME
from loader.staging.prune import Outcome, prune
from testkit.commands import wait_until
from testkit.databases import Database, application_database
from testkit.fixtures import WAREHOUSE
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, connect, connect_target
from waltally.database import Connection

DAYS_OLD = {1: 30, 2: 20, 3: 8, 4: 3}
"""How old the newest row is in each partition below the present one."""


@pytest.fixture(scope="module")
def window_five() -> Iterator[Cluster]:
    """A server whose WAL begins in window 5, so that its log may have begun before."""
    cluster = Server({"fsync": "off"})
    try:
        cluster.create()
        cluster.run("pg_resetwal", "-l", "000000010000000500000001", "-D", str(cluster.data))
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def pipeline(window_five: Cluster, tmp_path: Path) -> Iterator[Pipeline]:
    """A seeded source with a log that began at 1/0, a partition each window.

    What it stages and what the test adds is in one partition.
    """
    with application_database(window_five, WAREHOUSE) as database:
        database.begin_block()
        made = Pipeline(database, tmp_path)
        made.begin()
        make_windows(made, *DAYS_OLD)
        for number, days in DAYS_OLD.items():
            add_rows(made, number, days)
        database.execute("update cdc.slot_position set start_lsn = '1/0'")
        yield made


def add_rows(pipeline: Pipeline, number: int, days: int) -> None:
    """Stage three rows so many days ago in the partition with this number."""
    pipeline.target.execute(
        "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, staged_at, "
        "payload) select %s, %s::pg_lsn + ordinal, ordinal, 1, now(), "
        "now() - %s * interval '1 day', '{}' from generate_series(1, 3) as ordinal",
        *(pipeline.slot, f"{number}/0", days),
    )


def make_windows(pipeline: Pipeline, *numbers: int) -> None:
    """Make the partitions of 4 GiB with these numbers, as a long log has them."""
    with closing(connect_target(pipeline.dsns[1])) as target:
        for number in numbers:
            with target.transaction():
                make_partition(target, number << 32, 16 << 32)


def partitions(database: Database) -> list[str]:
    """The partitions that are attached, by their numbers; no table has the name of another."""
    rows = database.execute(
        "select inhrelid::regclass::text from pg_inherits "
        "where inhparent = 'cdc.change_log'::regclass order by 1"
    )
    named = "select count(*) from pg_class where relname ~ %s"
    assert database.value(named, PARTITION_NAME) == len(rows)
    return [name.removeprefix("cdc.change_log_").lstrip("0") for (name,) in rows]


def require_pruned(database: Database) -> None:
    """Require what a prune that keeps seven days leaves: the fourth one and the pipeline's own."""
    first, *more = partitions(database)
    assert first == "4"
    assert all(name.startswith("5") for name in more)


@contextmanager
def waiting_prune(pipeline: Pipeline) -> Iterator[tuple[subprocess.Popen[str], Connection]]:
    """A prune that waits for a session that has read the log; the prune and that session."""
    with pipeline.target.holding("select count(*) from cdc.change_log") as reader:
        prune = pipeline.spawn("loader", "prune", "--timeout", "600")
        try:
            wait_until_it_waits(pipeline)
            yield prune, reader
        finally:
            prune.kill()
            prune.communicate()


def wait_until_it_waits(pipeline: Pipeline) -> None:
    """Wait until the prune asks for the log, which it does for a second at a time."""
    waits = (
        "select count(*) from pg_locks where relation = 'cdc.change_log'::regclass "
        "and mode = 'AccessExclusiveLock' and not granted"
    )
    wait_until(lambda: pipeline.target.value(waits) == 1, "it waits for a reader")


def start(database: Database) -> str:
    return str(database.value("select start_lsn from cdc.slot_position"))


def planned(pipeline: Pipeline) -> list[Outcome]:
    """What a prune that keeps seven days would do."""
    return prune(pipeline.loader_settings, 7 * 86_400, 10, dry_run=True)


def last_to_go(pipeline: Pipeline) -> int:
    """The number of the last partition that it would drop, with all before; 0 for none."""
    names = [each.partition.name for each in planned(pipeline) if each.status == "would drop"]
    assert names == [f"change_log_{number:08x}" for number in range(1, len(names) + 1)]
    return len(names)


def holds(pipeline: Pipeline) -> str:
    """What holds the oldest partition that it would keep, and the remedy."""
    kept = next(each for each in planned(pipeline) if each.status == "kept")
    return f"{kept.blockers[0].reason}\n{kept.blockers[0].remedy}"


def test_a_dry_run_says_what_a_prune_does_and_changes_nothing(pipeline: Pipeline) -> None:
    assert pipeline.refused("prune", LOADER_SCHEMA="another")[0] == 20
    before = partitions(pipeline.target)
    said = pipeline.must("prune", "--keep", "7d", "--dry-run")
    assert re.search(r"would drop  change_log_00000003 +[\d.]+ kB +8\.0 d\n", said)
    assert re.search(r"^kept +change_log_00000004 .* 3\.0 d$", said, re.MULTILINE)
    kept = "What keeps change_log_00000004:\n- its newest row is 3.0 d old, --keep is 7.0 d\n"
    assert f"{kept}Would drop" in said
    summary = r"Would drop 3 partitions: [\d.]+ kB, positions before 4/0"
    assert re.fullmatch(summary, said.splitlines()[-1])
    assert (partitions(pipeline.target), start(pipeline.target)) == (before, "1/0")
    assert last_to_go(pipeline) == 3
    reasons = [outcome.blockers[0].reason for outcome in planned(pipeline)[4:]]
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
    run, slot = pipeline.target.execute, pipeline.slot

    def goes(upto: int, sql: str, *words: str) -> None:
        """After the SQL, partitions up to this one would go; the words say what holds the next."""
        run(sql)
        assert last_to_go(pipeline) == upto, sql
        for each in words:
            assert each in holds(pipeline)

    def run_remedy() -> None:
        goes(3, re.findall(r"delete from .*;", holds(pipeline))[0])

    # A model that nobody would ever apply more to, and one of a dbt target whose schema is gone.
    goes(
        3,
        "insert into cdc.model_watermark"
        " (relation, slot_name, applied_lsn, baseline_id, declaration)"
        " select 'dev.it''s', slot_name, '2/10', baseline_id, declaration from cdc.model_watermark",
    )
    needs = "model_name, relation_name, declaration, needed, routine, needs"
    goes(
        1,
        f"insert into cdc.installed_model (slot_name, relation, relation_schema, {needs}) select "
        f"slot_name, 'dev.it''s', 'dev', {needs} from cdc.installed_model "
        "where relation like 'analytics.%'",
        f"dev.it's, which does not exist, has applied slot {slot} only up to 2/10: ",
        "; or, if the model is gone for good: delete",
    )
    run_remedy()
    reader = f"('{slot}', 'an ''index', '2/10')"
    behind = f"the reader an 'index has read slot {slot} only up to 2/10"
    goes(1, f"insert into cdc.reader_position values {reader}", behind)
    run_remedy()

    goes(
        1,
        "insert into cdc.slot_position (slot_name, system_identifier, source_database, start_lsn, "
        "position_lsn) select 'other', '7', 'elsewhere', '1/0', '2/8'",
        "slot other still writes to it, and is at 2/8",
    )
    assert "teardown" not in holds(pipeline)
    other = "where slot_name = 'other'"
    goes(
        1,
        f"update cdc.slot_position set moved_at = '2001-02-03 04:05Z' {other}",
        "slot other is at 2/8, where it has been since 2001-02-03 04:05 UTC",
        "`loader teardown --slot other`",
    )
    goes(3, f"delete from cdc.slot_position {other}")

    # A rebuild from there would take a seed.
    goes(3, "update cdc.baseline set snapshot_lsn = '2/0'")
    # A model that waits for its first seed, which will be newer than all of this, holds nothing.
    goes(
        3,
        'insert into cdc.installed_model select (jsonb_populate_record(own, \'{"model_name": '
        '"new", "relation": "dev.new"}\')).* from cdc.installed_model as own',
    )
    run("delete from cdc.installed_model where model_name = 'new'")
    goes(0, "update cdc.model_watermark set applied_lsn = '1/8'")
    assert "dropped" not in pipeline.must("prune")
    assert start(pipeline.target) == "1/0"


def test_a_prune_that_waits_for_a_reader_is_in_nobodys_way(pipeline: Pipeline) -> None:
    with waiting_prune(pipeline) as (waiting, _), closing(connect(pipeline.dsns[1])) as other:
        assert start(pipeline.target) == "1/0", "nothing is done by halves"
        pipeline.refused_with(29, "Another prune", "prune", "--timeout", "1")
        wait_until_it_waits(pipeline)  # again
        other.ask("set lock_timeout to '10s'")
        other.ask("select count(*) from cdc.change_log")
        make_windows(pipeline, 8)
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
    pipeline.target.execute("drop table cdc.change_log_00000008")
    pipeline.must("prune")
    require_pruned(pipeline.target)
    pipeline.goes_on()


def test_what_comes_while_a_prune_waits_counts(pipeline: Pipeline) -> None:
    """Another slot keeps what it counts on, and a log that begins anew does so where it did."""
    with waiting_prune(pipeline) as (waiting, reader):
        pipeline.target.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
            "start_lsn, position_lsn) select 'other', '7', 'elsewhere', '1/0', '1/8'"
        )
        reader.rollback()
        said, failed = waiting.communicate(timeout=120)
    assert "- slot other still writes to it, and is at 1/8" in said, failed
    assert pipeline.target.value("select count(*) from cdc.change_log_00000001") == 3
    pipeline.target.execute("delete from cdc.slot_position where slot_name = 'other'")
    with waiting_prune(pipeline) as (waiting, reader):
        pipeline.must("setup", "--renew")
        began = start(pipeline.target)
        reader.rollback()
        assert waiting.communicate(timeout=120)[1] == ""
    assert start(pipeline.target) == began
    pipeline.source.insert(2, "sent")
    pipeline.must("run", "--once")


def test_a_prune_that_is_killed_has_done_nothing(pipeline: Pipeline) -> None:
    dead = pipeline.loader("prune", WALTALLY_KILL_AT="start-moved")
    assert dead.returncode == -signal.SIGKILL
    assert (start(pipeline.target), partitions(pipeline.target)[0]) == ("1/0", "1")
    pipeline.source.insert(2, "sent")
    pipeline.goes_on()
    pipeline.must("prune")
    require_pruned(pipeline.target)
    pipeline.goes_on()


def test_the_groups_of_a_baseline_go_with_the_log_behind_it(pipeline: Pipeline) -> None:
    pipeline.goes_on()
    groups = "select count(*) from cdc.baseline_group"
    assert pipeline.target.value(groups) > 0
    pipeline.must("prune")
    assert pipeline.target.value(groups) > 0
    pipeline.target.execute("update cdc.baseline set snapshot_lsn = '1/8'")
    pipeline.must("prune", "--dry-run")
    assert pipeline.target.value(groups) > 0
    pipeline.must("prune")
    assert pipeline.target.value(groups) == 0
    pipeline.source.insert(3, "sent")
    pipeline.goes_on()
    pipeline.seed()
    assert pipeline.target.value(groups) > 0
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
    for number, rows in ((2, 3), (0, 0)):
        assert f"change_log_0000000{number}" not in said
        left = f"select count(*) from cdc.change_log_0000000{number}"
        assert pipeline.target.value(left) == rows


def test_a_renewed_source_with_lower_wal_meets_no_old_rows(pipeline: Pipeline) -> None:
    """Its log is in one partition with old rows and in others that are gone."""
    make_windows(pipeline, 8)
    pipeline.target.execute("drop table cdc.change_log_00000002")
    add_rows(pipeline, 8, days=0)
    pipeline.target.execute(
        "update cdc.slot_position set system_identifier = '1', position_lsn = '8/8'"
    )
    pipeline.source.execute("select pg_drop_replication_slot(%s)", pipeline.slot)
    pipeline.must("setup", "--renew", "--source-is-gone")
    pipeline.seed()
    pipeline.source.insert(4, "sent")
    pipeline.goes_on()
    of_the_new_log = (
        "select count(*) from cdc.change_log inner join cdc.slot_position using (slot_name)"
        " where commit_lsn >= start_lsn"
    )
    assert pipeline.target.value(of_the_new_log) == 4
    assert partitions(pipeline.target)
