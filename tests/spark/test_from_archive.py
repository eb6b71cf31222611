"""What an archive gives: replays of any position, and seeds as the source would give them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import pyarrow.parquet
import pytest
from waltally_jobs.common import arrow
from waltally_jobs.common.errors import ArchiveIncomplete, ReplayDiffers
from waltally_jobs.replaying.job import ReplaySettings, parse_time, replay

from testkit.databases import Database, empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster
from testkit.spark_jobs import shared_session
from tests.queries.odd import Writer
from tests.queries.test_facts import MODELS as FACTS
from tests.runbook.procedure import Operator
from tests.spark.kept import ABOVE, LISTED, MODELS, ROWS, made
from tests.spark.odd import LAB
from waltally import lsn
from waltally.errors import SettingError
from waltally.options import parse_lsn

OF_FACTS = ("by_day", "total", "of_two", "purged", "numbers_in_texts", "tags")
ARCHIVED = (*OF_FACTS, "nothing")
"""Models of several tables, purged, without a group, with rows that their queries cannot take."""
KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: FACTS[name] for name in OF_FACTS},
    "nothing": ("select code, count(*) as n from {a} where id < 0 group by 1", {}),
    # It keeps rows, and those are not computed from an archive.
    "copied": ("select id, code from {a}", {}),
}
DELETES = (
    "select model_name, part, dimensions, place, sum(measure)::text from cdc.archived_delete"
    " cross join unnest(measures) with ordinality as u (measure, place)"
    " group by 1, 2, 3, 4 order by 1, 2, 3, 4"
)
STORED = (
    "select declared_name, part, dimensions, array(select trim_scale(coalesce(n, 0))::text"
    " from unnest(measures) as n) from cdc.baseline_group where declared_name <> 'copied'"
    " and exists (select from unnest(measures) as n where n <> 0) order by 1, 2, 3",
    "select declared_name, table_identities::text from cdc.baseline order by 1",
    "select declared_name, part, reason, row_count from cdc.baseline_rejection order by 1, 2, 3",
    DELETES,
)
"""Everything that seeds store, but their numbers and times."""

Rows = dict[str, list[dict[str, str | None]]]
"""The rows of each model."""


Moment = tuple[int, Rows]
"""The models at a position, as they were then."""


def plain(value: object) -> str | None:
    """Return a value as text; 1.50 is 1.5."""
    if value is None:
        return None
    with suppress(InvalidOperation):
        return f"{Decimal(str(value)).normalize():f}"
    return str(value)


class Archived(QuerySystem):
    """Tables of odd types, their archive, and what the models were at several positions."""

    def __init__(self, database: Database, home: Path) -> None:
        super().__init__(database, home)
        self.place = home / "archive"
        self.moments: list[Moment] = []
        self.writer = Writer(self.source, Random(9), truncates=False)  # type: ignore[arg-type]

    @property
    def settings(self) -> ReplaySettings:
        return ReplaySettings(self.dsns[1], self.slot, "cdc", str(self.place), ARCHIVED)

    def archive(self, flags: str = "") -> None:
        self.spark_job(f"spark-submit spark/archive.py --to {self.place} {flags}")

    def go(self, changes: int) -> None:
        """Write so many changes, bring the models up to them, and remember these."""
        self.writer.write(changes)
        self.catch_up()
        position = lsn.parse(self.target.value("select position_lsn::text from cdc.slot_position"))
        self.moments.append((position, self.rows()))

    def rows(self) -> Rows:
        query = (
            "select (select jsonb_object_agg(key, value) from jsonb_each_text(to_jsonb(t)))"
            " from analytics.{} as t"
        )
        return {
            name: by_text(row for (row,) in self.target.execute(query.format(name)))
            for name in ARCHIVED
        }

    def ask(self, *queries: str) -> list[list[tuple[Any, ...]]]:
        return [self.target.execute(query) for query in queries]

    def must_replay(self, moment: Moment, output: Path, **asked: Any) -> None:
        """Replay, and see that each model is what it was at that moment."""
        position, models = moment
        asked = asked or {"at": position}
        replay(replace(self.settings, output=str(output), **asked), shared_session)
        for name, rows in models.items():
            table = pyarrow.parquet.read_table(output / name)
            own = [{column: row[column] for column in table.column_names} for row in rows]
            assert by_text(table.to_pylist()) == by_text(own), name


def by_text(rows: Iterable[dict[str, Any]]) -> list[dict[str, str | None]]:
    found = [{name: plain(value) for name, value in row.items()} for row in rows]
    return sorted(found, key=lambda row: str(sorted(row.items())))


@pytest.fixture(scope="module")
def archived(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archived]:
    with empty_database(cluster) as database:
        database.execute(LAB)
        made = Archived(database, tmp_path_factory.mktemp("archived"))
        made.keep(KEPT)
        made.writer.write(150)
        made.spark_job("spark-submit spark/seed.py")
        made.archive()
        for number in range(5):
            made.writer.truncates = number == 4
            if number == 2:
                with made.follow():
                    made.spark_job("spark-submit spark/seed.py")
            made.go(80)
            if number == 2:
                # The latest position that the counts are right for: the next transaction's own.
                database.execute(
                    "update cdc.baseline set snapshot_lsn = (select min(commit_lsn)"
                    " from cdc.change_log where commit_lsn >= snapshot_lsn)"
                )
            if number in (1, 2, 4):
                made.archive("--slice-changes 60")
        yield made


def test_a_moment_is_as_the_models_were_then(
    archived: Archived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len({str(rows) for _, rows in archived.moments}) == 5
    for number, few_rows in ((0, 100_000), (2, 100_000), (3, -1), (4, 100_000)):
        monkeypatch.setattr(arrow, "FEW_ROWS", few_rows)
        archived.must_replay(archived.moments[number], tmp_path / str(number))
    empty = pyarrow.parquet.read_table(tmp_path / "0" / "nothing")
    assert {*empty.column_names} >= {"code", "n"} and empty.num_rows == 0
    compare = replace(archived.settings, compare=True)
    replay(compare, shared_session)
    largest = "where n = (select max(n) from analytics.by_day)"
    archived.target.execute(f"update analytics.by_day set n = n + 1 {largest}")
    with pytest.raises(ReplayDiffers, match="by_day differs"):
        archived.spark_job(
            f"spark-submit spark/replay.py --from {archived.place} --compare --model by_day"
        )
    archived.target.execute(f"update analytics.by_day set n = n - 1 {largest}")


def test_a_time_is_the_position_after_what_was_committed_by_then(
    archived: Archived, tmp_path: Path
) -> None:
    moment = archived.moments[1]
    newest = archived.target.value(
        "select max(committed_at)::text from cdc.change_log where commit_lsn < %s",
        lsn.show(moment[0]),
    )
    archived.must_replay(moment, tmp_path / "at", at_time=parse_time(newest))
    with pytest.raises(ArchiveIncomplete, match="more may come"):
        archived.must_replay(moment, tmp_path / "later", at_time=parse_time("2100-01-01T00:00:00"))


def test_what_the_archive_does_not_reach_is_refused(archived: Archived, tmp_path: Path) -> None:
    last, _ = archived.moments[-1]
    begin = lsn.parse(archived.target.value("select start_lsn::text from cdc.slot_position"))
    reach, keeps = "the archive holds those from", "copied keeps rows, and those are not comp"
    for asked, error, says in (
        ({"at": last + 0x1000_0000}, ArchiveIncomplete, reach),
        ({"at": begin - 1}, ArchiveIncomplete, reach),
        ({"path": str(tmp_path)}, ArchiveIncomplete, "has no changes of the slot"),
        ({"models": ("copied",)}, ArchiveIncomplete, keeps),
        ({"models": ("ft_other",)}, SettingError, "no declaration of ft_other at"),
        ({"output": str(tmp_path)}, SettingError, "exists already"),
        ({"at": 1, "compare": True}, SettingError, "exclude each other"),
    ):
        with pytest.raises(error, match=says):
            replay(replace(archived.settings, **asked), shared_session)
    with pytest.raises(SettingError, match="not a WAL position"):
        parse_lsn("7", "--at")
    with pytest.raises(SettingError, match="not a time"):
        parse_time("yesterday")


def test_a_seed_from_an_archive_goes_on_as_the_stream_had(archived: Archived) -> None:
    """At the archive's end and before."""
    seed = f"spark-submit spark/seed.py --archive {archived.place}"
    rows, [deletes] = archived.rows(), archived.ask(DELETES)
    assert deletes
    for position, _ in archived.moments[2::2]:
        # What was applied since then is applied again. Another query had been built meanwhile.
        archived.target.execute(
            "update cdc.model_watermark set declaration = '{}' where model_name !~ 'copied'"
        )
        place = lsn.show(position)
        archived.spark_job(f"{seed} --at {place} {' '.join(by_model(ARCHIVED))}")
        at = "select distinct snapshot_lsn::text from cdc.baseline where declared_name <> 'copied'"
        assert archived.target.execute(at) == [(place,)]
        archived.apply()
        assert archived.rows() == rows, place
        assert archived.ask(DELETES) == [deletes], place
    stored = archived.ask(*STORED)
    assert all(stored)
    with pytest.raises(ArchiveIncomplete, match="copied keeps rows, and those are not comp"):
        archived.spark_job(f"{seed} --model copied")
    with archived.follow():
        archived.spark_job("spark-submit spark/seed.py")
    assert archived.ask(*STORED) == stored
    archived.keep({**KEPT, "late": FACTS["total"]}, is_refresh=False)
    with pytest.raises(ArchiveIncomplete, match="no baseline of late"):
        archived.spark_job(f"{seed} --model late")


@pytest.mark.slow
def test_a_killed_replay_stores_nothing_and_the_next_one_is_right(
    archived: Archived, tmp_path: Path
) -> None:
    moment = archived.moments[4]
    flags = ("--from", str(archived.place), "--at", lsn.show(moment[0]), *by_model(ARCHIVED))
    command = (sys.executable, "spark/replay.py", *flags, "--to", str(tmp_path / "killed"))
    killed = archived.spawn(*command, WALTALLY_KILL_AT="appended")
    killed.communicate(timeout=60)
    assert killed.returncode == -SIGKILL
    assert not (tmp_path / "killed").exists()
    left = "select count(*) from pg_class where relname ~ '^moved_' and relkind = 'r'"
    assert archived.target.value(left) == 2
    archived.must_replay(moment, tmp_path / "again")
    assert archived.target.value(left) == 0


@pytest.mark.slow
def test_the_log_may_be_pruned_and_the_archive_goes_on(archived: Archived, tmp_path: Path) -> None:
    archived.catch_up()
    archived.archive()
    archived.target.execute(
        "delete from cdc.change_log; update cdc.slot_position set start_lsn = position_lsn"
    )
    archived.go(80)
    compare = replace(archived.settings, compare=True)
    with pytest.raises(ArchiveIncomplete, match="bytes of WAL after the archive's end") as ahead:
        replay(compare, shared_session)
    command = f"`spark-submit spark/archive.py --to {archived.place}`, then this again"
    assert ahead.value.remedy.startswith(command)
    assert "stop `loader run --build`" in ahead.value.remedy
    archived.archive()
    for number in (1, 5):
        archived.must_replay(archived.moments[number], tmp_path / str(number))
    assert not any(each.difference_count for each in replay(compare, shared_session).models)


def test_what_the_log_does_not_hold_is_not_replayed(system: QuerySystem) -> None:
    """A model that was not registered for a while has no change of that time."""
    total = {"total": FACTS["total"]}
    other: dict[str, Any] = {"other": ("select count(*) as n from {b}", {})}
    system.keep(total)
    system.spark_job("spark-submit spark/seed.py")
    for number, models in enumerate((total, other, total | other)):
        system.keep(models, is_refresh=False)
        system.source.execute("insert into lab.a (id) values (%s)", number)
        system.source.execute("insert into lab.b (id) values (%s)", number)
        system.catch_up()
        system.spark_job(f"spark-submit spark/archive.py --to {system.home}")
    with pytest.raises(ArchiveIncomplete, match=r"its changes up to .* are from .* on in the arch"):
        system.spark_job(f"spark-submit spark/replay.py --from {system.home} --model total")


@pytest.mark.slow
def test_a_lost_warehouse_is_rebuilt_from_an_archive_and_a_log_that_was_pruned(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Models of every kind, in another database; what only the archive knows stays counted."""
    home = str(tmp_path / "archive")
    of_rows = [name for name, (query, _) in MODELS.items() if query in (ROWS, LISTED)]
    others = by_model(name for name in MODELS if name not in (*of_rows, *ABOVE))
    seed = ("seed", "--archive", home, *others)
    with made(cluster, tmp_path, is_apart=True) as kept, empty_database(cluster) as fresh:

        def change() -> None:
            """Each kind of change, with a purge; staged and applied."""
            kept.write(60)
            kept.write(30, "old_orders")
            for statement in (
                "update orders set status = 'paid', amount = amount + 1 where id % 7 = 3",
                "delete from orders where id % 13 = 3",
                "delete from old_orders where id % 5 = 3",
            ):
                kept.source.execute(statement)
            kept.catch_up()

        def build(_: str) -> None:
            kept.keep(MODELS)
            kept.apply()

        def rows() -> dict[str, list[str]]:
            return {
                name: sorted(map(str, kept.target.execute(f"table analytics.{name}")))
                for name in MODELS
            }

        operator = Operator(kept)  # type: ignore[arg-type]
        operator.instead = {
            "spark-submit spark/archive.py": lambda _: kept.must_run("archive", "--to", home),
            "spark-submit spark/seed.py": lambda _: kept.must_run(
                "seed", "--archive", home, *others
            ),
            "dbt build": build,
        }
        procedure = "Rebuild the warehouse from an archive"
        operator.carry_out(procedure, 0)
        change()
        kept.source.begin_block()
        change()
        operator.carry_out(procedure, 1)
        assert "Dropped" in kept.must("prune", "--keep", "0s")
        change()
        before = rows()

        # The loader was ahead of the archive: its slot alone does not go on from there.
        kept.target = fresh
        kept.must("setup", "--take-slot")
        code, _, err = kept.run(*seed)
        assert code == 32 and "the changes between are in neither" in err
        fresh.execute("drop schema cdc, cdc_jobs cascade")
        try:
            operator.carry_out(procedure, 2)
            kept.must_run("seed", *by_model(of_rows))
            kept.wait_for_log()
            kept.apply()
            report = kept.audit()
        finally:
            operator.close()
        assert {*report["models"], *report["over_models"]} == {*MODELS}
        assert int(report["models"]["purged"]["purged"]["order_count"]) > 0
        assert rows() == before


def by_model(names: Iterable[str]) -> list[str]:
    """Return the flags that name these models."""
    return [word for name in names for word in ("--model", name)]
