"""The replay gives, from the archive alone, what dbt held at any position."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet
import pytest
from archiving.job import archive
from archiving.settings import ArchiveSettings
from common.errors import ArchiveIncomplete, ReplayDiffers
from common.settings import parse_lsn
from pyspark.sql import SparkSession
from replaying import replayed_fact
from replaying.job import replay
from replaying.settings import ReplaySettings, parse_time

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.spark.archives import submit
from tests.spark.support import Source
from tests.support.databases import Database, empty_database
from tests.support.pipeline import Pipeline
from waltally import lsn
from waltally.errors import SettingError
from waltally.tables import DIMENSIONS, parse_tables

Rows = set[tuple[Any, ...]]
TABLES = parse_tables("public.notifications,public.notification_history")

INSERT = (
    'insert into notifications ("to", service_id, template_id, notification_type,'
    " notification_status) select 'x', service_id, id, 'sms', %s"
    " from templates, generate_series(1, 3)"
)
MOVE = (
    "with gone as (delete from notifications where notification_status = 'sent' returning *)"
    " insert into notification_history (id, service_id, template_id, notification_type,"
    " notification_status, created_at) select id, service_id, template_id, notification_type,"
    " notification_status, created_at from gone"
)
NARROW = "alter table notifications replica identity "
STEPS = (
    (INSERT.replace("%s", "'created'"),),
    (
        "update notifications set notification_status = 'sent' where random() < 0.5",
        INSERT.replace("%s", "'(a, \"b\" \\ c)'"),
    ),
    (MOVE, "update notification_history set notification_status = 'delivered'"),
    (
        "seed",
        "update notifications set service_id = null where notification_status like '(%'",
        "delete from notification_history",
    ),
    # A rejected delete and a rejected update: what is lost to the counts stays lost.
    (
        INSERT.replace("%s", "'kept'"),
        NARROW + "default",
        "delete from notifications where notification_status = 'kept'",
        "update notifications set notification_status = 'lost' where service_id is not null",
        NARROW + "full",
    ),
    (INSERT.replace("%s", "'sent'"), MOVE, "truncate notifications", INSERT.replace("%s", "'new'")),
    ("seed", "truncate notification_history", "delete from notifications where random() < 0.5"),
)


@dataclass
class Moment:
    """The fact at a position, as dbt held it then."""

    position: int
    rows: Rows
    rejected: int


class ArchivedPipeline(Pipeline):
    """A source that is its own target, and its archive."""

    def __init__(
        self, database: Database, home: Path, models: Models, spark: SparkSession, archive: Path
    ) -> None:
        super().__init__(database, home, models)
        self.spark = spark
        self.archive_home = archive
        self.moments: list[Moment] = []

    @property
    def settings(self) -> ReplaySettings:
        return ReplaySettings(str(self.archive_home), self.slot, TABLES, target=self.dsns[1])

    def go(self, *statements: str) -> None:
        """Run the statements, bring the fact up to them, and remember it."""
        for statement in statements:
            if statement == "seed":
                self.seed()
            else:
                self.source.execute(statement)
        self.stage()
        if "seed" in statements:
            # The latest position that the counts are right for: the next transaction's own.
            self.source.execute(
                "update cdc.historical_snapshot set snapshot_lsn = (select min(commit_lsn)"
                " from cdc.change_log where commit_lsn >= snapshot_lsn)"
            )
        self.build()
        position = self.source.value(
            "select applied_lsn::text from cdc.model_watermark where model_name like %s",
            "%.ft_service_stats",
        )
        rejected = len(self.rejected())
        self.moments.append(Moment(lsn.parse(position), self.fact_rows(), rejected))

    def fact_rows(self) -> Rows:
        return set(
            self.source.execute(
                f"select {', '.join(f'{name}::text' for name in replayed_fact.COLUMNS[:5])}, count,"
                " live_count, archived_count from analytics.ft_service_stats"
                " where live_count <> 0 or archived_count <> 0"
            )
        )

    def archive(self) -> None:
        settings = ArchiveSettings(self.dsns[1], self.slot, "cdc", str(self.archive_home), 60)
        archive(settings, self.spark)

    def replay(self, output: Path, **asked: Any) -> Rows:
        replay(replace(self.settings, output=str(output), **asked), self.spark)
        table = pyarrow.parquet.read_table(output)
        return {tuple(row[name] for name in replayed_fact.COLUMNS) for row in table.to_pylist()}


@pytest.fixture(scope="module")
def pipeline(
    cluster: Cluster,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ArchivedPipeline]:
    with empty_database(cluster, "replayed") as database:
        database.load_notify()
        home, archive_home = tmp_path_factory.mktemp("dbt"), tmp_path_factory.mktemp("archive")
        made = ArchivedPipeline(database, home, Models(), spark, archive_home)
        database.execute(INSERT, "before the slot")
        made.set_up()
        for number, statements in enumerate(STEPS):
            made.go(*statements)
            if number in (3, 5):
                made.archive()
        made.archive()
        yield made


def test_every_moment_is_as_dbt_held_it(pipeline: ArchivedPipeline, tmp_path: Path) -> None:
    assert pipeline.moments[4].rejected > 4
    assert len({frozenset(moment.rows) for moment in pipeline.moments}) == len(STEPS)
    for number, moment in enumerate(pipeline.moments):
        found = pipeline.replay(tmp_path / str(number), at=moment.position)
        assert found == moment.rows, f"step {number}"
    # Of the newest seed and what came after, counting says the same.
    live, _ = pipeline.recount()
    counts = Counter({row[1:5]: row[6] for row in pipeline.moments[-1].rows if row[6]})
    assert counts == live


def test_a_time_is_the_position_after_what_was_committed_by_then(
    pipeline: ArchivedPipeline, tmp_path: Path
) -> None:
    moment = pipeline.moments[1]
    (newest,) = pipeline.source.execute(
        "select max(committed_at)::text from cdc.change_log where commit_lsn < %s",
        lsn.show(moment.position),
    )[0]
    found = pipeline.replay(tmp_path / "at", at_time=parse_time(newest))
    assert found == moment.rows
    with pytest.raises(ArchiveIncomplete, match="more may come"):
        pipeline.replay(tmp_path / "later", at_time=parse_time("2100-01-01T00:00:00+01:00"))


def test_what_the_archive_does_not_reach_is_refused(
    pipeline: ArchivedPipeline, tmp_path: Path
) -> None:
    last = pipeline.moments[-1].position
    begin = lsn.parse(pipeline.source.value("select start_lsn::text from cdc.slot_position"))
    for position in (last + 0x1000_0000, begin - 1):
        with pytest.raises(ArchiveIncomplete, match="the archive holds those from"):
            pipeline.replay(tmp_path / "beyond", at=position)
    with pytest.raises(ArchiveIncomplete, match="holds no changes"):
        replay(replace(pipeline.settings, path=str(tmp_path)), pipeline.spark)
    other = replace(pipeline.settings, tables=TABLES[::-1])
    with pytest.raises(SettingError, match="registered public") as caught:
        replay(other, pipeline.spark)
    assert caught.value.remedy == (
        "export LOADER_TABLES=public.notifications,public.notification_history"
    )
    with pytest.raises(SettingError, match="exists already"):
        pipeline.replay(tmp_path)
    with pytest.raises(SettingError, match="exclude each other"):
        replace(pipeline.settings, at=1, compare=True)
    with pytest.raises(SettingError, match="not a WAL position"):
        parse_lsn("7", "--at")
    with pytest.raises(SettingError, match="not a time"):
        parse_time("yesterday")


@pytest.mark.slow
def test_the_log_may_be_pruned_and_the_archive_goes_on(
    pipeline: ArchivedPipeline, tmp_path: Path
) -> None:
    last = pipeline.moments[-1].position
    pipeline.source.execute(
        "delete from cdc.change_log; update cdc.slot_position set start_lsn = position_lsn"
    )
    pipeline.go(INSERT.replace("%s", "'late'"), "delete from notifications where random() < 0.2")
    with pytest.raises(ArchiveIncomplete, match="are asked for"):
        replay(replace(pipeline.settings, compare=True), pipeline.spark)
    pipeline.archive()
    for number in (0, 4, len(pipeline.moments) - 1):
        moment = pipeline.moments[number]
        assert pipeline.replay(tmp_path / str(number), at=moment.position) == moment.rows
    assert pipeline.moments[-1].position > last
    assert any("late" in row for row in pipeline.moments[-1].rows)
    assert replay(replace(pipeline.settings, compare=True), pipeline.spark).difference_count == 0


@pytest.mark.slow
def test_a_fact_that_differs_is_told_with_its_sizes(
    pipeline: ArchivedPipeline, cluster: Cluster, tmp_path: Path
) -> None:
    source = Source(cluster, pipeline.source.name)
    source.environment["LOADER_SLOT"] = pipeline.slot
    row = pipeline.source.execute(
        "update analytics.ft_service_stats set live_count = live_count + 5, count = count + 5"
        f" where id = (select id from analytics.ft_service_stats order by live_count desc limit 1)"
        f" returning {', '.join(f'{name}::text' for name in DIMENSIONS)}, live_count"
    )[0]
    process = submit(source, "replay", "--from", str(pipeline.archive_home), "--compare", "--json")
    out, err = process.communicate(timeout=300)
    assert process.returncode == ReplayDiffers.exit_code == 40, err
    (found,) = json.loads(out)["differences"]
    assert tuple(found[name] for name in DIMENSIONS) == row[:4]
    assert (found["fact_live_count"], found["replay_live_count"]) == (row[4], row[4] - 5)
    assert (found["fact_archived_count"], found["replay_archived_count"]) == (0, 0)
    assert "differs from the replay in 1 groups\nTry: " in err


def test_ids_are_those_that_the_database_makes(spark: SparkSession, cluster: Cluster) -> None:
    odd = ["", "a b", "a,b", 'say "x"', "back\\slash", "(paren)", "tab\t", "ünï", "plain", "\u00a0"]
    ids = ("00000000-0000-0000-0000-00000000000a", "b0000000-0000-0000-0000-00000000000b")
    with psycopg.connect(cluster.dsn()) as connection:
        rows = [(*ids, kind, status) for kind in odd for status in odd]
        found = spark.createDataFrame(rows, list(DIMENSIONS)).select(
            *DIMENSIONS, replayed_fact.row_id()
        )
        for *group, id_ in found.collect():
            wanted = connection.execute(
                "select md5(row(%s::uuid, %s::uuid, %s::text, %s::text)::text)::uuid::text", group
            ).fetchone()
            assert wanted == (id_,), group
