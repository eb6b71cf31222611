"""The audit on a real source, with a real loader and real builds beside it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import psycopg2
import pytest
from auditing.job import audit
from auditing.report import LeftOut
from common import session
from common.connections import connect
from common.errors import AuditIncomplete, SnapshotTooOld
from common.settings import Settings
from counting import snapshot
from counting.snapshot import ExportedSnapshot, Notify
from facts import fact, loader_progress
from facts.settings import FactSettings

from demo import source as notify
from demo.cluster import Cluster
from demo.mix import mix
from demo.session import Session, templates_of
from demo.traffic import Traffic
from loader.build import builder
from loader.build.builder import Models
from tests.spark.support import AT_THE_GATE, FAST_START, GATE, TABLES
from tests.support import ROOT, run, wait_until
from tests.trouble.conftest import new
from tests.trouble.scene import Scene, profiles
from waltally import lsn
from waltally.errors import LoaderError, NotSetUp
from waltally.tables import parse_tables

ARCHIVE = (
    "with gone as (delete from notifications where id in (select id from notifications"
    " where notification_status = 'created' and num_nulls(service_id, template_id) = 0 limit 4)"
    " returning *) insert into notification_history (id, service_id, template_id,"
    " notification_type, notification_status, created_at) select id, service_id, template_id,"
    " notification_type, notification_status, created_at from gone"
)
ONE_TRANSACTION = ("--vars", "slice_changes: 1")
"""What a build applies: the watermark is then where the next transaction commits."""
SESSIONS = "select pid from pg_stat_activity where application_name = 'waltally audit'"
DIMENSIONS = "service_id, template_id, notification_type, notification_status"
OPTIONS = (
    *("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"),
    *("--driver-java-options", FAST_START),
)
SLOTS = "select slot_name from pg_replication_slots where slot_name ~ '^waltally_audit_'"


class Audited(Scene):
    """A source that is its own target, and the audits of it."""

    @property
    def dsn(self) -> str:
        return self.source.cluster.dsn(self.source.name)

    def settings(self, timeout: float = 120.0) -> FactSettings:
        tables = parse_tables(",".join(TABLES))
        reading = Settings(
            self.dsn, self.dsn, self.slot, tables, "cdc", timeout=timeout, work="audit"
        )
        return FactSettings(reading, "analytics")

    def command(self, *flags: str, job: str = "audit") -> list[str]:
        return ["spark-submit", *OPTIONS, f"spark/{job}.py", *flags]

    def submit(self, *flags: str, job: str = "audit") -> tuple[int, str, str]:
        done = run(self.command(*flags, job=job), self.environment())
        return done.returncode, done.stdout, done.stderr

    def stage(self) -> None:
        """Return once the loader that follows has staged what is committed now."""
        end = self.source.value("select pg_current_wal_insert_lsn()")
        with closing(psycopg2.connect(self.dsn)) as connection, connection.cursor() as cursor:
            cursor.execute("select pg_logical_emit_message(true, 'test', repeat(' ', 2048))")
            connection.commit()
        wait_until(
            lambda: self.source.value(
                "select position_lsn >= %s::pg_lsn from cdc.slot_position", end
            ),
            "it is staged",
        )

    def seed(self) -> None:
        """As a new seed of a right fact would: it knows how many of the rows were purged."""
        super().seed()
        self.source.execute(
            "update cdc.historical_counts as counts set purged_count = gone.rows from ("
            f" select {DIMENSIONS}, count(*) as rows from truth.purged group by {DIMENSIONS}"
            ") as gone where counts.source_table = 'public.notification_history' and"
            " (counts.service_id, counts.template_id, counts.notification_type,"
            " counts.notification_status) = (gone.service_id, gone.template_id,"
            " gone.notification_type::text, gone.notification_status)"
        )

    def purge(self, rows: int) -> None:
        """Delete archived rows that belong to a group."""
        self.source.execute(
            "delete from notification_history where id in (select id from notification_history"
            f" where num_nulls({DIMENSIONS}) = 0 order by id limit %s)",
            rows,
        )

    def stored(self) -> int:
        """How many rows of the archive belong to a group."""
        return int(
            self.source.value(
                f"select count(*) from notification_history where num_nulls({DIMENSIONS}) = 0"
            )
        )

    def put_off(self, rows: int) -> tuple[str, ...]:
        """Change one archived_count by hand; return its group."""
        [group] = self.source.execute(
            "update analytics.ft_service_stats set archived_count = archived_count + %s,"
            " count = greatest(live_count + archived_count + %s, 0) where id ="
            " (select id from analytics.ft_service_stats where archived_count > 0"
            " order by archived_count < 5, id limit 1) returning service_id::text,"
            " template_id::text, notification_type, notification_status",
            rows,
            rows,
        )
        return group

    def facts(self) -> list[tuple[Any, ...]]:
        return self.source.execute(
            f"select {DIMENSIONS}, live_count, archived_count, count"
            " from analytics.ft_service_stats where live_count <> 0 or archived_count <> 0"
            " order by 1, 2, 3, 4"
        )

    def remedies(self, said: str) -> list[list[str]]:
        """The commands that an error names, in their order."""
        return [
            shlex.split(command) for command in re.findall(r"`([^`]+)`", said.split("Try: ")[1])
        ]

    def carry_out_one(self, command: list[str]) -> None:
        program, *words = command
        if program == "spark-submit":
            command = [program, *OPTIONS, *words]
        done = run(command, self.environment())
        assert done.returncode == 0, done.stdout + done.stderr

    def archived(self) -> int:
        return int(self.source.value("select sum(archived_count) from analytics.ft_service_stats"))

    def refresh(self) -> None:
        """A new seed, so that the fact is right whatever was done to it, and rows to purge."""
        # What tests before this one have purged is forgotten; one may have truncated too.
        self.source.execute("truncate truth.purged")
        stored = "select count(*) from notification_history where num_nulls(service_id) = 0"
        if self.source.value(stored) < 200:
            self.source.insert(200, "created")
            self.source.execute(ARCHIVE.replace("limit 4", "limit 200"))
        self.must("run", "--once")
        self.seed()
        self.build()

    def write(self, seed: int) -> None:
        """Each kind of change in a transaction of its own, before and after TRUNCATEs."""
        kinds = list(mix())
        truncates = [kind for kind in mix(truncates=True) if kind not in kinds]
        with closing(psycopg2.connect(self.dsn)) as connection, connection.cursor() as cursor:
            session = Session(cursor, Random(seed), templates_of(self.dsn), "full")
            for kind in [*kinds, *truncates, *kinds, *kinds]:
                kind(session)
                connection.commit()
        self.source.insert(9, "created")
        self.source.execute(ARCHIVE)

    def traces(self) -> list[tuple[Any, ...]]:
        """Everything that an audit might leave or change."""
        tables = self.source.execute(
            "select format('%I.%I', nspname, relname) from pg_class"
            " inner join pg_namespace on pg_namespace.oid = relnamespace"
            " where nspname in ('cdc', 'analytics', 'public') and relkind in ('r', 'p') order by 1"
        )
        contents = " union all ".join(
            f"select '{name}', count(*), sum(hashtext(t::text)::bigint)::text from {name} as t"
            for (name,) in tables
        )
        return [
            *self.source.execute(f"{contents} order by 1"),
            *self.source.execute(
                "select slot_name, temporary from pg_replication_slots order by 1"
            ),
            *self.source.execute("select relname from pg_class order by relname"),
        ]


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    home = tmp_path_factory.mktemp("audit")
    with pytest.MonkeyPatch.context() as patch, new(cluster, "audited") as database:
        for name, value in profiles(home).items():
            patch.setenv(name, value)
        patch.setenv("PYSPARK_SUBMIT_ARGS", shlex.join([*OPTIONS, "pyspark-shell"]))
        dsn = cluster.dsn(database.name)
        notify.create(dsn)
        notify.fill(
            dsn, services=5, templates=15, live_rows=2000, history_rows=3000, null_share=0.02
        )
        notify.set_identity(dsn, "full")
        made = Audited(database, home, Models(), patch)
        made.must("setup")
        yield made


@pytest.fixture
def scene(world: Audited) -> Audited:
    """The world with a fact that is right."""
    world.refresh()
    return world


@pytest.fixture
def after_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[ExportedSnapshot], ExportedSnapshot]], None]:
    """Do something in the audit, in this process, while it holds its snapshot."""
    hold = snapshot.export

    def arrange(act: Callable[[ExportedSnapshot], ExportedSnapshot]) -> None:
        @contextmanager
        def holding(settings: Settings, monitor: Any, tell: Notify) -> Iterator[ExportedSnapshot]:
            with hold(settings, monitor, tell) as held:
                yield act(held)

        monkeypatch.setattr(snapshot, "export", holding)

    return arrange


def positions(scene: Scene) -> set[int]:
    return {
        lsn.parse(position)
        for (position,) in scene.source.execute(
            "select distinct commit_lsn::text from cdc.change_log"
        )
    }


def test_transactions_exactly_at_both_positions_and_all_kinds_between(
    scene: Audited,
    monkeypatch: pytest.MonkeyPatch,
    after_the_snapshot: Callable[[Callable[[ExportedSnapshot], ExportedSnapshot]], None],
) -> None:
    scene.write(seed=1)
    scene.must("run", "--once")
    monkeypatch.setattr(builder, "_SLICE", ONE_TRANSACTION)
    scene.build()

    def end_at_a_transaction(held: ExportedSnapshot) -> ExportedSnapshot:
        # The snapshot is the same at the first commit that it does not see.
        scene.source.insert(7, "sent")
        scene.stage()
        first = scene.source.value(
            "select min(commit_lsn)::text from cdc.change_log where commit_lsn >= %s",
            lsn.show(held.position),
        )
        return replace(held, position=lsn.parse(first))

    after_the_snapshot(end_at_a_transaction)
    with scene.follow():
        report = audit(scene.settings())
    assert {report.fact_lsn, report.snapshot_lsn} <= positions(scene)
    between = (
        "select coalesce(string_agg(distinct action::text, '' order by action::text), '')"
        " from cdc.change_log where commit_lsn >= %s and commit_lsn < %s"
    )
    ends = (lsn.show(report.fact_lsn), lsn.show(report.snapshot_lsn))
    assert scene.source.value(between, *ends) == "DITU"
    assert report.comparison.differences == []
    assert report.comparison.difference_count == 0
    assert report.comparison.live.counted > 0
    assert report.comparison.archive.counted > 0
    [(listed,)] = scene.source.execute(
        "select count(*) from cdc.change_log where commit_lsn >= %s and commit_lsn < %s", *ends
    )
    assert report.change_count == listed


def test_a_change_that_the_log_lost_and_one_that_dbt_rejects_are_found(
    scene: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long = "x" * 1001
    scene.source.insert(1)
    # No TRUNCATE here that would cancel what is wrong at the fact's position.
    scene.source.insert(2, "sent")
    scene.source.insert(1, too_long)
    scene.source.insert(3, "sent")
    scene.must("run", "--once")
    monkeypatch.setattr(builder, "_SLICE", ONE_TRANSACTION)
    scene.build()
    [(service, template)] = scene.source.execute(
        "delete from cdc.change_log where (commit_lsn, ordinal) = (select commit_lsn, ordinal"
        " from cdc.change_log where payload ~ '\"notifications\"'"
        " order by commit_lsn desc, ordinal desc limit 1)"
        ' returning substring(payload from \'"service_id","value":"([^"]*)\'),'
        ' substring(payload from \'"template_id","value":"([^"]*)\')'
    )

    with scene.follow():
        report = audit(scene.settings())
    # Gone before the next seed: what becomes of such a row is rejected too.
    scene.source.execute("delete from notifications where length(notification_status) > 1000")
    assert report.fact_lsn in positions(scene)
    assert report.comparison.difference_count == 1
    assert {
        (each.service_id, each.template_id, each.notification_status, each.column, each.difference)
        for each in report.comparison.differences
    } == {(service, template, "sent", "live_count", -1)}
    assert report.comparison.live.difference == -1
    reason = "the value of notification_status is longer than 1000 bytes"
    assert LeftOut("public.notifications", reason, 1) in report.left_out
    assert report.rejected.count == 1
    assert report.rejected.first_lsn in positions(scene)
    assert "1 changes could not be counted" in report.notes[0]


def test_changes_that_are_pruned_meanwhile_are_not_missed(
    scene: Audited,
    after_the_snapshot: Callable[[Callable[[ExportedSnapshot], ExportedSnapshot]], None],
) -> None:
    def prune(held: ExportedSnapshot) -> ExportedSnapshot:
        scene.stage()
        scene.source.execute("update cdc.slot_position set start_lsn = position_lsn")
        return held

    begins = scene.source.value("select start_lsn::text from cdc.slot_position")
    after_the_snapshot(prune)
    try:
        with (
            scene.follow(),
            pytest.raises(SnapshotTooOld, match="the changes between are in neither"),
        ):
            audit(scene.settings())
    finally:
        scene.source.execute("update cdc.slot_position set start_lsn = %s", begins)


def test_a_count_changed_by_hand_is_found_while_the_source_is_idle(scene: Audited) -> None:
    ((*group, live),) = scene.source.execute(
        "update analytics.ft_service_stats set live_count = live_count + 1, count = count + 1"
        " where id = (select id from analytics.ft_service_stats where live_count > 0"
        " order by id limit 1) returning service_id::text, template_id::text, notification_type,"
        " notification_status, live_count"
    )
    # An idle loader: it moves only because the audit gives it something to pass.
    with scene.follow() as following:
        code, out, err = scene.submit("--json")
        following.end()
    assert code == 42, err
    names = ("service_id", "template_id", "notification_type", "notification_status")
    report = json.loads(out)
    assert report["differences"] == [
        {
            **dict(zip(names, group, strict=True)),
            "column": "live_count",
            "fact": live,
            "counted": live - 1,
            "difference": 1,
        }
    ]
    assert (report["version"], report["equal"], report["difference_count"]) == (2, False, 1)
    assert (report["archived"], report["unseen"]) == ("exact", None)
    nulls = scene.source.value(
        f"select count(*) from notifications where num_nulls({DIMENSIONS}) > 0"
    )
    left_out = {
        "source_table": "public.notifications",
        "reason": "a dimension is null",
        "row_count": nulls,
    }
    assert left_out in report["left_out"]
    assert report["totals"]["live_count"]["difference"] == 1
    assert lsn.parse(report["fact_lsn"]) <= lsn.parse(report["snapshot_lsn"])
    assert "analytics.ft_service_stats differs from the tables in 1 counts\nTry: " in err
    assert "counting public.notifications, public.notification_history at" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_under_traffic_no_audit_finds_a_difference(scene: Audited) -> None:
    traffic = Traffic(scene.dsn, seed=7, rate=20, truncates=True)
    traffic.start()
    try:
        with scene.follow("--build") as following:
            applied = "select max(applied_lsn)::text from cdc.model_watermark"
            before = scene.source.value(applied)
            wait_until(lambda: scene.source.value(applied) != before, "a build in the background")
            reports = [audit(scene.settings()) for _ in range(2)]
            code, out, err = scene.submit("--json")
            following.end()
    finally:
        traffic.stop()
    assert [report.comparison.differences for report in reports] == [[], []]
    assert [report.comparison.difference_count for report in reports] == [0, 0]
    assert reports[0].fact_lsn < reports[1].fact_lsn
    assert code == 0, out + err
    assert json.loads(out)["equal"] is True


def test_without_a_loader_the_audit_says_so_before_it_starts(
    scene: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    def running(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "running", running)
    before = scene.traces()
    with pytest.raises(AuditIncomplete, match=f"nobody follows the slot {scene.slot}") as caught:
        audit(scene.settings(timeout=3600.0))
    assert caught.value.exit_code == 41
    assert "start `loader run`" in (caught.value.remedy or "")
    wait_until(lambda: not scene.source.execute(SESSIONS), "its sessions end")
    assert scene.traces() == before


@pytest.mark.slow
def test_a_killed_audit_leaves_nothing(scene: Audited) -> None:
    scene.source.insert(5)
    scene.must("run", "--once")
    before = scene.traces()
    with scene.follow(), closing(psycopg2.connect(scene.dsn)) as gate, gate.cursor() as cursor:
        cursor.execute(GATE)
        killed = subprocess.Popen(
            scene.command(),
            env=scene.environment(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(
                lambda: scene.source.value(AT_THE_GATE) >= 1 or killed.poll() is not None,
                "it reads",
                300,
            )
            assert len(scene.source.execute(SLOTS)) == 1
        finally:
            kill_all(killed)
    wait_until(lambda: not scene.source.execute(SESSIONS), "its sessions end")
    wait_until(lambda: not scene.source.execute(SLOTS), "its slot goes")
    assert scene.traces() == before


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver, then the JVM that started it: the driver outlives the JVM a little."""
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.wait()


BROKEN: list[tuple[str, str, type[LoaderError], str]] = [
    (
        "alter table analytics.ft_service_stats rename to other",
        "alter table analytics.other rename to ft_service_stats",
        NotSetUp,
        "has not been built",
    ),
    (
        "update cdc.model_watermark set model_name = 'x' || model_name",
        "update cdc.model_watermark set model_name = substr(model_name, 2)",
        NotSetUp,
        "has not been built",
    ),
    (
        "update cdc.model_watermark set applied_lsn = '0/0'",
        "delete from cdc.model_watermark",
        SnapshotTooOld,
        "holds changes up to 0/0 and the change log begins at",
    ),
]


def test_a_fact_that_cannot_be_brought_forward_is_refused_at_once(scene: Audited) -> None:
    for breaks, mends, error, words in BROKEN:
        scene.source.execute(breaks)
        try:
            with pytest.raises(error, match=words) as caught:
                audit(scene.settings())
            assert caught.value.remedy
        finally:
            scene.source.execute(mends)


def test_what_the_fact_stands_on_is_read_with_it(scene: Audited) -> None:
    applied = "select max(applied_lsn)::text from cdc.model_watermark"
    with closing(connect(scene.dsn, "LOADER_TARGET_DSN", "audit")) as target:
        with fact.open_fact(target, scene.settings()) as stored:
            assert stored.position == lsn.parse(scene.source.value(applied))
            assert (stored.is_seeded, stored.is_on_newest_seed) == (True, True)
        scene.source.execute("update cdc.historical_snapshot set seed_id = gen_random_uuid()")
        with fact.open_fact(target, scene.settings()) as stored:
            assert (stored.is_seeded, stored.is_on_newest_seed) == (True, False)
        scene.source.execute(
            "update cdc.model_watermark set seed_id = null; delete from cdc.historical_snapshot"
        )
        with fact.open_fact(target, scene.settings()) as stored:
            assert (stored.is_seeded, stored.is_on_newest_seed) == (False, True)
            assert set(stored.counted) == set(TABLES)


def test_the_wait_says_how_far_the_loader_is_and_who_follows(world: Audited) -> None:
    told: list[str] = []
    dsn, settings = world.dsn, world.settings(timeout=0.1)
    patient = world.settings(timeout=3600.0)
    with closing(connect(dsn, "LOADER_TARGET_DSN", "audit")) as connection:
        position = lsn.parse(world.position())
        loader_progress.wait_for_position(connection, connection, settings, position, told.append)
        assert told == []
        with pytest.raises(
            AuditIncomplete, match=f"1 bytes of WAL before {lsn.show(position + 1)}"
        ):
            loader_progress.wait_for_position(
                connection, connection, settings, position + 1, told.append
            )
        with pytest.raises(AuditIncomplete, match="nobody follows the slot"):
            loader_progress.wait_for_position(
                connection, connection, patient, position + 1, told.append
            )
    assert told[0].startswith("waiting: the loader is at ")


def test_a_loader_that_comes_back_is_not_taken_for_absent(world: Audited) -> None:
    with closing(connect(world.dsn, "LOADER_SOURCE_DSN", "audit")) as connection:
        starting = world.start()
        with starting:
            # It is not there yet, or it is: both are well.
            loader_progress.require_follower(connection, world.settings())
            assert loader_progress.is_followed(connection, world.slot)
            starting.wait_for("following the slot")
            starting.end()


def test_a_new_seed_keeps_what_was_purged_unless_told_to_forget_it(scene: Audited) -> None:
    archived = scene.archived()
    purge = (
        "delete from notification_history where id in (select id from notification_history where"
        " num_nulls(service_id, template_id, notification_type, notification_status) = 0"
        " order by id limit 50)"
    )
    scene.source.execute(purge)
    code, _, err = scene.submit(job="seed")
    assert code == 41, err
    assert "nobody follows the slot" in err and "--forget-purged" in err
    with scene.follow():
        # Not built yet: the seed brings the fact forward by itself.
        scene.source.execute(ARCHIVE)
        code, out, err = scene.submit("--json", job="seed")
        assert code == 0, err
        scene.stage()
        scene.build()
    told = json.loads(out)
    assert (told["purged"], told["purged_rows"]) == ("kept", 50)
    assert scene.source.value("select sum(purged_count) from cdc.historical_counts") == 50
    stored = scene.source.value(
        "select count(*) from notification_history where"
        " num_nulls(service_id, template_id, notification_type, notification_status) = 0"
    )
    assert scene.archived() == stored + 50 > archived - 50
    scene.put_off(-1)
    scene.purge(5)
    with scene.follow():
        report = audit(scene.settings())
    assert (report.archived, report.purged_count) == ("exact", 55)
    assert [each.difference for each in report.comparison.differences] == [-1]
    scene.put_off(1)
    stored -= 5
    with scene.follow():
        code, out, err = scene.submit("--json", "--forget-purged", job="seed")
        assert code == 0, err
        scene.stage()
        scene.build()
    told = json.loads(out)
    assert (told["purged"], told["purged_rows"]) == ("forgotten", 55)
    assert scene.archived() == stored


def test_where_the_log_does_not_reach_the_fact_a_seed_takes_it_as_it_is(scene: Audited) -> None:
    archived = scene.archived()
    scene.source.execute(
        "delete from notification_history where id in (select id from notification_history where"
        " num_nulls(service_id, template_id, notification_type, notification_status) = 0"
        " order by id limit 20)"
    )
    scene.must("setup", "--renew")
    code, out, err = scene.submit(job="seed")
    assert code == 0, err
    assert "20 rows in" in out
    assert "the change log does not go on from the fact" in out
    scene.must("run", "--once")
    scene.build()
    assert scene.archived() == archived


def test_purges_are_explained_and_a_count_off_by_one_is_found_and_mended(scene: Audited) -> None:
    [(remembered,)] = scene.source.execute("select sum(purged_count) from cdc.historical_counts")
    with scene.follow():
        scene.purge(30)
        scene.source.execute("delete from notification_history where service_id is null")
        scene.stage()
        scene.build()
        right = scene.facts()
        scene.purge(20)
        report = audit(scene.settings())
        assert report.comparison.differences == []
        assert (report.archived, report.unseen) == ("exact", None)
        assert report.purged_count == (remembered or 0) + 50

        group = scene.put_off(-1)
        report = audit(scene.settings())
        assert [
            (*list(vars(each).values())[:5], each.difference)
            for each in report.comparison.differences
        ] == [(*group, "archived_count", -1)]

        scene.put_off(2)
        code, out, err = scene.submit()
        assert (code, "archived_count" in out) == (42, True), err
        rebuild, *anew = scene.remedies(err)
        assert rebuild == ["dbt", "build", "--full-refresh"]
        scene.carry_out_one(rebuild)
        assert scene.facts() == right

        # Now the seed itself is wrong, so that to rebuild from it is no help.
        scene.source.execute(
            "update cdc.historical_counts set row_count = row_count + 1 where (slot_name,"
            " source_table, service_id, template_id, notification_type, notification_status) = (%s,"
            " 'public.notification_history', %s, %s, %s, %s)",
            scene.slot,
            *group,
        )
        scene.carry_out_one(rebuild)
        code, _, err = scene.submit()
        assert code == 42, err
        assert scene.remedies(err) == [rebuild, *anew]
        seed, build = anew
        assert seed == ["spark-submit", "spark/seed.py", "--forget-purged"]
        scene.carry_out_one(seed)
        scene.stage()
        scene.carry_out_one(build)
        code, out, err = scene.submit("--json")
        assert code == 0, err
        assert json.loads(out)["purged_count"] == 0
    assert scene.archived() == scene.stored()


def test_where_purges_are_not_all_known_the_audit_says_why(scene: Audited) -> None:
    begins = scene.source.value("select start_lsn::text from cdc.slot_position")
    try:
        with scene.follow():
            scene.source.execute("alter table notification_history replica identity default")
            scene.purge(1)
            scene.source.execute("alter table notification_history replica identity full")
            scene.purge(4)
            scene.put_off(1)
            report = audit(scene.settings())
            assert report.archived == "at-least"
            assert "1 changes in the log" in (report.unseen or "")
            assert "do not say of which group" in (report.unseen or "")
            assert report.comparison.differences == []

            # The archive starts anew: what was before is not asked for, in the log or the seed.
            scene.source.execute("truncate notification_history; truncate truth.purged")
            scene.stage()
            truncated = scene.source.value(
                "select max(commit_lsn)::text from cdc.change_log where action = 'T'"
            )
            scene.source.execute(ARCHIVE)
            scene.purge(1)
            scene.stage()
            scene.build()
            scene.purge(2)
            scene.put_off(1)
            scene.source.execute("update cdc.slot_position set start_lsn = %s", truncated)
            report = audit(scene.settings())
            assert (report.archived, report.purged_count) == ("exact", 3)
            assert [each.difference for each in report.comparison.differences] == [1]
            assert report.remedy().startswith("`spark-submit spark/seed.py --forget-purged`")

            scene.build()
            scene.source.execute(
                "update cdc.slot_position set start_lsn = applied_lsn from cdc.model_watermark"
                " where model_name ~ 'ft_service_stats'"
            )
            report = audit(scene.settings())
            assert report.comparison.differences == []
            assert report.archived == "at-least"
            assert "after the seed at" in (report.unseen or "")
            scene.put_off(-10)
            report = audit(scene.settings())
            assert {each.column for each in report.comparison.differences} == {"archived_count"}
            assert all(each.difference < 0 for each in report.comparison.differences)
    finally:
        scene.source.execute("update cdc.slot_position set start_lsn = %s", begins)
        # For whichever test comes next.
        scene.source.execute(
            "insert into notification_history (id, created_at, service_id, template_id,"
            " notification_type, notification_status) select gen_random_uuid(), now(), service_id,"
            " id, 'sms', 'sent' from templates, generate_series(1, 20)"
        )
