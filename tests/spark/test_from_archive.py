"""The replay gives, from the archive alone, what dbt held at any position."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any, NamedTuple

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession
from waltally_jobs.archiving import manifests
from waltally_jobs.archiving.job import archive
from waltally_jobs.archiving.manifests import Baseline, Contents, Origin, Slice
from waltally_jobs.common import arrow
from waltally_jobs.common.errors import ArchiveIncomplete
from waltally_jobs.replaying.job import (
    ReplaySettings,
    baseline_before,
    models_at,
    parse_time,
    replay,
)

from testkit.databases import Database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.model import notify, parsed
from testkit.servers import Cluster
from testkit.spark_jobs import shared_session
from tests.spark.archives import ArchivedPipeline, Log
from tests.spark.support import MOVE
from waltally import lsn
from waltally.errors import SettingError
from waltally.models import Model
from waltally.options import parse_lsn

Rows = set[tuple[Any, ...]]
ORIGIN = Origin("1", "app")
DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")
COLUMNS = (*DIMENSIONS, "live_count", "archived_count")

INSERT = (
    'insert into notifications ("to", service_id, template_id, notification_type,'
    " notification_status) select 'x', service_id, id, 'sms', %s"
    " from templates, generate_series(1, 3)"
)
MOVE_SENT = MOVE.format("notification_status = 'sent'")
STEPS = (
    (INSERT.replace("%s", "'created'"),),
    (
        "update notifications set notification_status = 'sent' where random() < 0.5",
        INSERT.replace("%s", "'(a, \"b\" \\ c)'"),
    ),
    (MOVE_SENT, "update notification_history set notification_status = 'delivered'"),
    (
        "seed",
        "update notifications set service_id = null where notification_status like '(%'",
        "delete from notification_history",
    ),
    (
        INSERT.replace("%s", "'kept'"),
        "delete from notifications where notification_status = 'kept' and random() < 0.5",
    ),
    (
        INSERT.replace("%s", "'sent'"),
        MOVE_SENT,
        "truncate notifications",
        INSERT.replace("%s", "'new'"),
    ),
    ("seed", "truncate notification_history", "delete from notifications where random() < 0.5"),
)


def test_a_model_without_a_group_is_a_file_without_a_row(spark: SparkSession, log: Log) -> None:
    log.append(1)
    log.source.take_baseline()
    archive(log.settings(), spark)
    output = log.home / "replayed"
    settings = ReplaySettings(log.source.dsn, log.source.slot, "cdc", str(log.home))
    replay(replace(settings, output=str(output)), lambda: spark)
    table = pyarrow.parquet.read_table(output / "ft_service_stats")
    assert {*COLUMNS} <= {*table.column_names} and table.num_rows == 0


class Moment(NamedTuple):
    """The model at a position, as dbt held it then."""

    position: int
    rows: Rows


class Replayed(ArchivedPipeline):
    """A source that is its own target, and what its model was at several positions."""

    def __init__(self, database: Database, home: Path) -> None:
        super().__init__(database, home)
        self.moments: list[Moment] = []

    @property
    def settings(self) -> ReplaySettings:
        return ReplaySettings(self.dsns[1], self.slot, "cdc", str(self.archive_home))

    def go(self, *statements: str) -> None:
        """Run the statements, bring the model up to them, and remember it."""
        for statement in statements:
            if statement == "seed":
                self.seed()
            else:
                self.source.execute(statement)
        self.stage()
        if "seed" in statements:
            # The latest position that the counts are right for: the next transaction's own.
            self.source.execute(
                "update cdc.baseline set snapshot_lsn = (select min(commit_lsn)"
                " from cdc.change_log where commit_lsn >= snapshot_lsn)"
            )
        self.build()
        position = self.source.value("select applied_lsn::text from cdc.model_watermark")
        rows = self.source.execute(
            f"select {', '.join(f'{name}::text' for name in DIMENSIONS)},"
            " live_count, archived_count from analytics.ft_service_stats"
            " where live_count <> 0 or archived_count <> 0"
        )
        self.moments.append(Moment(lsn.parse(position), set(rows)))

    def replay(self, output: Path, **asked: Any) -> Rows:
        replay(replace(self.settings, output=str(output), **asked), shared_session)
        table = pyarrow.parquet.read_table(output / "ft_service_stats")
        return {tuple(row[name] for name in COLUMNS) for row in table.to_pylist()}


@pytest.fixture(scope="module")
def replayed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    with empty_database(cluster, WAREHOUSE) as database:
        database.load_notify()
        made = Replayed(database, tmp_path_factory.mktemp("replayed"))
        database.execute(INSERT, "before the slot")
        made.set_up()
        made.archive()
        for number, statements in enumerate(STEPS):
            made.go(*statements)
            if number in (3, 5, 6):
                made.archive("--slice-changes 60")
        yield made


def test_a_moment_is_as_dbt_held_it(
    replayed: Replayed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len({frozenset(moment.rows) for moment in replayed.moments}) == len(STEPS)
    # Each takes a replay. The slow test below has the others.
    for number, few_rows in ((2, 100_000), (4, 100_000), (5, 100_000), (6, -1)):
        monkeypatch.setattr(arrow, "FEW_ROWS", few_rows)
        moment = replayed.moments[number]
        assert replayed.replay(tmp_path / str(number), at=moment.position) == moment.rows
    counts = {row[:4]: row[4] for row in replayed.moments[-1].rows if row[4]}
    assert counts == {group: live for group, (live, _) in replayed.recount().items() if live}


@pytest.mark.slow
def test_a_killed_replay_stores_nothing_and_the_next_one_is_right(
    replayed: Replayed, tmp_path: Path
) -> None:
    moment = replayed.moments[4]
    flags = ("--from", str(replayed.archive_home), "--at", lsn.show(moment.position))
    command = (sys.executable, "spark/replay.py", *flags, "--to", str(tmp_path / "killed"))
    killed = replayed.spawn(*command, WALTALLY_KILL_AT="appended")
    killed.communicate(timeout=60)
    assert killed.returncode == -SIGKILL
    assert not (tmp_path / "killed").exists()
    left = "select count(*) from pg_class where relname ~ '^moved_' and relkind = 'r'"
    assert replayed.source.value(left) == 2
    assert replayed.replay(tmp_path / "again", at=moment.position) == moment.rows
    assert replayed.source.value(left) == 0


def test_a_time_is_the_position_after_what_was_committed_by_then(
    replayed: Replayed, tmp_path: Path
) -> None:
    moment = replayed.moments[1]
    (newest,) = replayed.source.execute(
        "select max(committed_at)::text from cdc.change_log where commit_lsn < %s",
        lsn.show(moment.position),
    )[0]
    found = replayed.replay(tmp_path / "at", at_time=parse_time(newest))
    assert found == moment.rows
    with pytest.raises(ArchiveIncomplete, match="more may come"):
        replayed.replay(tmp_path / "later", at_time=parse_time("2100-01-01T00:00:00+01:00"))


def test_what_the_archive_does_not_reach_is_refused(replayed: Replayed, tmp_path: Path) -> None:
    last = replayed.moments[-1].position
    begin = lsn.parse(replayed.source.value("select start_lsn::text from cdc.slot_position"))
    reach = "the archive holds those from"
    for asked, error, says in (
        ({"at": last + 0x1000_0000}, ArchiveIncomplete, reach),
        ({"at": begin - 1}, ArchiveIncomplete, reach),
        ({"path": str(tmp_path)}, ArchiveIncomplete, "has no changes of the slot"),
        (
            {"models": ("ft_other",)},
            SettingError,
            "no declaration of ft_other at",
        ),
        ({"output": str(tmp_path)}, SettingError, "exists already"),
        ({"at": 1, "compare": True}, SettingError, "exclude each other"),
    ):
        with pytest.raises(error, match=says):
            replay(replace(replayed.settings, **asked), shared_session)
    with pytest.raises(SettingError, match="not a WAL position"):
        parse_lsn("7", "--at")
    with pytest.raises(SettingError, match="not a time"):
        parse_time("yesterday")


@pytest.mark.slow
def test_the_log_may_be_pruned_and_the_archive_goes_on(replayed: Replayed, tmp_path: Path) -> None:
    last = replayed.moments[-1].position
    replayed.source.execute(
        "delete from cdc.change_log; update cdc.slot_position set start_lsn = position_lsn"
    )
    replayed.go(INSERT.replace("%s", "'late'"), "delete from notifications where random() < 0.2")
    with pytest.raises(ArchiveIncomplete, match="bytes of WAL after the archive's end") as ahead:
        replay(replace(replayed.settings, compare=True), shared_session)
    archive = f"`spark-submit spark/archive.py --to {replayed.archive_home}`, then this again"
    assert ahead.value.remedy.startswith(archive)
    assert "stop `loader run --build`" in ahead.value.remedy
    replayed.archive()
    for number in (0, 3, len(replayed.moments) - 1):
        moment = replayed.moments[number]
        assert replayed.replay(tmp_path / str(number), at=moment.position) == moment.rows
    assert replayed.moments[-1].position > last
    assert any("late" in row for row in replayed.moments[-1].rows)
    result = replay(replace(replayed.settings, compare=True), shared_session)
    assert [each.difference_count for each in result.models] == [0]


def slice_of(begin: int, end: int, *models: Model) -> Slice:
    return Slice(ORIGIN, begin, end, 0, (), models)


def baseline_of(model: Model, at: int) -> Baseline:
    return Baseline(ORIGIN, model, "id", at, 0, ())


def test_a_model_is_replayed_as_it_was_declared_then() -> None:
    before = notify()
    after, changed = (
        parsed("ft_orders", ["channel"], "public.orders", timezone=zone)
        for zone in ("UTC", "Europe/Berlin")
    )
    contents = Contents(
        (slice_of(10, 20, before), slice_of(20, 30, before, after)),
        (baseline_of(before, 15), baseline_of(after, 22), baseline_of(changed, 28)),
    )
    texts = [
        *map(manifests.text, contents.slices),
        *map(manifests.text, contents.baselines),
    ]
    assert manifests.read(texts) == contents
    assert models_at(contents, 12, ()) == ["ft_service_stats"]
    assert models_at(contents, 25, ("ft_orders",)) == ["ft_orders"]
    with pytest.raises(SettingError, match="no declaration of ft_orders"):
        models_at(contents, 12, ("ft_orders",))

    def newest(position: int) -> Baseline:
        return baseline_before(contents, "ft_orders", position)

    assert newest(25) == baseline_of(after, 22)
    assert newest(28) == baseline_of(changed, 28)
    # It waited for its own.
    with pytest.raises(ArchiveIncomplete, match="no baseline of ft_orders at or before 0/15"):
        newest(21)
