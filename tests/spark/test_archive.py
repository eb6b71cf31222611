"""The archive has every change of the log once, whatever is killed, and refuses what cannot be."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from waltally_jobs.archiving import manifests as contents
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.job import archive, rows_read_back
from waltally_jobs.archiving.manifests import Origin, Slice
from waltally_jobs.common.errors import AnotherArchive, ArchiveIncomplete, CountingFailed

from testkit.commands import wait_until
from tests.spark.archives import COLUMNS, Log, archived, manifests
from tests.spark.support import kill, meanwhile
from waltally import locks, lsn
from waltally.errors import AnotherCluster, LoaderError, SettingError, SourceBehind


def test_the_archive_is_the_log_row_for_row_and_goes_on_where_it_ended(
    spark: SparkSession, log: Log
) -> None:
    settings = log.settings()
    begin = log.position
    log.append(3, 3, 12, 1, at="2026-11-20T23:59:59.999999Z")
    log.append(2, at="2026-11-21T00:00:00Z")
    first = archive(settings, spark)
    # Whole transactions: the one of 12 is not cut.
    assert [part["rows"] for part in manifests(log.slot_home)] == [3, 3, 12, 3]
    assert archived(log.slot_home) == log.rows()
    assert (first.rows, first.slices, first.to_lsn) == (21, 4, log.position)
    assert log.noted() == [(begin, log.position)]
    end = lsn.show(log.position)
    said = rf"21 changes from {lsn.show(begin)} up to {end} in 4 slices, \d+ files; [\d.]+ s"
    assert re.fullmatch(said, str(first))
    again = archive(settings, spark)
    assert (again.rows, again.slices) == (0, 0)
    assert "nothing new; the archive in " in str(again)

    log.append(4, at="2026-11-19T12:00:00Z")
    log.append(0)
    log.prune(begin + 0x30)
    kept = archived(log.slot_home)
    more = archive(settings, spark)
    assert (more.rows, lsn.show(more.from_lsn)) == (4, lsn.show(first.to_lsn))
    assert archived(log.slot_home) == sorted([*kept, *log.rows()[-4:]])
    assert log.noted() == [(begin, log.position)]


def test_a_file_and_all_folders_above_it_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(Path(f"/dev/fd/{fd}").readlink()))
    Folder.of(f"{tmp_path}/new/archive").write("manifests/one.json", "{}")
    file = tmp_path / "new/archive/manifests/one.json"
    assert synced >= {file, *(each for each in file.parents if each.is_relative_to(tmp_path))}


def test_files_that_the_driver_does_not_see_are_no_archive(tmp_path: Path) -> None:
    with pytest.raises(CountingFailed, match="a folder of each machine's own") as caught:
        rows_read_back(Folder.of(str(tmp_path)), ["changes/date=2026-11-20/part.parquet"])
    assert "a place that all machines of the cluster share" in str(caught.value.remedy)


def test_a_place_that_cannot_be_reached_is_named_with_its_cause(
    spark: SparkSession, log: Log
) -> None:
    log.append(1)
    remedy = refused(spark, log, SettingError, "Unrecognized filesystem type", path="nowhere://x/y")
    assert remedy.startswith("give a place that pyarrow knows")
    refused(spark, log, CountingFailed, "a task failed: .*Cannot create dir", path="file:/proc/x")


def test_what_is_of_another_slot_or_named_by_no_manifest_is_no_part_of_the_archive(
    spark: SparkSession, log: Log
) -> None:
    log.append(2)
    log.run(
        "insert into cdc.slot_position (slot_name, system_identifier, source_database,"
        " start_lsn, position_lsn)"
        " select 'other', system_identifier, source_database, start_lsn, position_lsn"
        " from cdc.slot_position"
    )
    log.run(
        "insert into cdc.change_log select 'other', commit_lsn, ordinal + 10, xid, committed_at,"
        " staged_at, payload, action from cdc.change_log"
    )

    assert archive(log.settings(), spark).rows == 2
    (named,) = log.slot_home.glob("changes/*/*/*.parquet")
    unnamed = log.slot_home / "changes/date=2026-11-20/range=0000000000100030-0000000000100060"
    unnamed.mkdir()
    (unnamed / named.name).write_bytes(named.read_bytes())
    beside = named.with_name("part-of-another-attempt.parquet")
    beside.write_bytes(named.read_bytes())
    draft = log.slot_home / "manifests/.draft.json.draft"
    draft.write_text("{")
    assert archive(log.settings(), spark).rows == 0
    assert not any(each.exists() for each in (unnamed / named.name, beside, draft))
    assert archived(log.slot_home) == log.rows()


def test_each_baseline_is_archived_once_with_its_declaration(spark: SparkSession, log: Log) -> None:
    odd = ['a "b", \\', None, "sms", "sent"]
    log.source.take_baseline()
    log.run(
        "insert into cdc.baseline_group"
        " values (%s, 'ft_service_stats', 'public.notifications', %s, '{3, 3, 0}')",
        *(log.source.slot, odd),
    )
    log.append(1)
    assert set(archive(log.settings(), spark).baselines) == {"ft_service_stats"}
    [stored] = manifests(log.slot_home, "baseline")
    rows = pyarrow.parquet.read_table(log.slot_home / stored["files"][0]).to_pylist()
    assert rows == [{"part": "public.notifications", "dimensions": odd, "sums": ["3", "3", "0"]}]
    # The declarations are with the changes too, for a model that no baseline is of.
    [part] = manifests(log.slot_home)
    known = log.source.execute("select declaration from cdc.registered_model")
    assert [(each["declaration"],) for each in part["models"]] == known
    assert archive(log.settings(), spark).baselines == {}
    log.run("delete from cdc.baseline_group")
    log.run("update cdc.baseline set baseline_id = gen_random_uuid()")
    assert set(archive(log.settings(), spark).baselines) == {"ft_service_stats"}
    assert sorted(each["groups"] for each in manifests(log.slot_home, "baseline")) == [0, 1]


def refused(spark: SparkSession, log: Log, kind: type[LoaderError], says: str, **more: Any) -> str:
    """See the archive be refused, and return the remedy."""
    with pytest.raises(kind, match=says) as caught:
        archive(replace(log.settings(), **more), spark)
    assert caught.value.remedy
    return str(caught.value.remedy)


def test_a_log_that_does_not_go_on_from_the_archive_is_refused(
    spark: SparkSession, log: Log
) -> None:
    begin = log.position
    log.append(1, 1)
    archive(log.settings(), spark)
    end = log.position

    log.run("update cdc.slot_position set position_lsn = %s", lsn.show(end - 1))
    refused(spark, log, SourceBehind, "the change log only up to")
    log.run("update cdc.slot_position set position_lsn = %s", lsn.show(end))

    log.append(1, 1)
    log.prune(end + 0x30)
    refused(spark, log, ArchiveIncomplete, "the changes between are in neither")
    # At its end is early enough.
    log.run("update cdc.slot_position set start_lsn = %s", lsn.show(end))
    archive(log.settings(), spark)

    log.run("update cdc.slot_position set system_identifier = 'another'")
    refused(spark, log, AnotherCluster, "the change log is of .* of another")
    assert log.noted() == [(begin, begin)]
    log.run(
        "update cdc.slot_position set system_identifier = (select system_identifier::text"
        " from pg_control_system())"
    )

    # A prune must know at once that the archive has become less.
    log.prune(end + 0x30)
    for manifest, says, left in (
        (f"{end:016X}-{log.position:016X}", "in neither", end),
        (f"{begin:016X}-{end:016X}", "is empty now", begin),
    ):
        (log.slot_home / f"manifests/{manifest}.json").unlink()
        refused(spark, log, ArchiveIncomplete, says)
        assert log.noted() == [(begin, left)]


def test_the_files_of_the_changes_are_a_delta_table_where_that_is_asked(
    spark: SparkSession, log: Log
) -> None:
    wanted = replace(log.settings(), is_delta=True)
    place = log.slot_home / "changes"

    def read() -> tuple[int, int | None, list[tuple[Any, ...]]]:
        """Version, position and rows, as a user of DuckDB reads them by the page's own words."""
        table = DeltaTable(str(place))
        changes = table.to_pyarrow_dataset()
        found = duckdb.from_arrow(changes).project(", ".join(COLUMNS)).fetchall()
        rows = sorted(found, key=lambda row: row[:2])
        return table.version(), table.transaction_version("waltally"), rows

    log.append(3, 12, at="2026-11-20T23:59:59.999999Z")
    archive(log.settings(), spark)
    log.append(3, 1, at="2026-11-21T00:00:00Z")
    archive(wanted, spark)
    first = read()
    assert first == (1, log.position, log.rows())
    # What a run that was killed before its commit has archived is not there.
    archive(wanted, spark)
    log.append(2)
    archive(log.settings(), spark)
    assert read() == first
    log.append(0, 5)
    archive(wanted, spark)
    assert read() == (2, log.position, log.rows())

    # The manifests were brought back from an older copy: files that they do not name are deleted.
    sorted(log.slot_home.glob("manifests/0*.json"))[-1].unlink()
    log.append(1)
    remedy = refused(spark, log, ArchiveIncomplete, "has other files up to", is_delta=True)
    assert remedy.startswith(f"delete file:{place}/_delta_log")
    shutil.rmtree(place / "_delta_log")
    archive(wanted, spark)
    assert read()[2] == log.rows()


def test_another_archive_and_a_prune_during_the_reading_are_refused(
    spark: SparkSession, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(3, 3)
    with log.source.session() as other:
        running = locks.key("archive", "cdc", log.source.slot)
        other.ask("select pg_advisory_lock(%s)", (running,))
        refused(spark, log, AnotherArchive, "is running")
    meanwhile(monkeypatch, "common.changes.count", after=lambda _: log.prune(log.position))
    refused(spark, log, ArchiveIncomplete, "while it was read")
    assert not manifests(log.slot_home)


def test_slices_with_a_gap_are_no_archive() -> None:
    origin = Origin("1", "app")
    texts = [*map(contents.text, (Slice(origin, 1, 2, 0, ()), Slice(origin, 2, 5, 1, ("a",))))]
    found = contents.read(reversed(texts))
    assert (found.from_lsn, found.to_lsn) == (1, 5)
    held = [found.holds(*place) for place in ((1, 5), (9, 9), (0, 5), (1, 6), (3, 2))]
    assert held == [True, True, False, False, False]
    assert found.files(1, 2) == [] and found.files(1, 3) == ["a"]
    gaps = [contents.text(Slice(origin, begin, 7, 0, ())) for begin in (6, 4)]
    for wrong in (*gaps, "{", "{}", json.dumps({"version": 1})):
        with pytest.raises(ArchiveIncomplete):
            contents.read([*texts, wrong])


@pytest.mark.slow
@pytest.mark.parametrize("is_remote", [False, True], ids=["submitted", "over Connect"])
def test_a_killed_archive_is_completed_by_the_next_one(
    log: Log, request: pytest.FixtureRequest, is_remote: bool
) -> None:
    remote = request.getfixturevalue("server") if is_remote else ""
    begin = log.position
    log.append(*[4] * 8)
    log.source.previous_seed()
    flags = ("--to", str(log.home), "--slice-changes", "8")

    def run(kill_at: str = "") -> int:
        """Archive, and return how many changes are archived now: the first ones."""
        environment = {"WALTALLY_KILL_AT": kill_at}
        code, _, err = log.source.submit(
            *flags, job="archive", remote=remote, environment=environment
        )
        assert (code == 0) != bool(kill_at), err
        return archived_now()

    def archived_now() -> int:
        found = archived(log.slot_home)
        assert found == log.rows()[: len(found)]
        return len(found)

    def files() -> set[str]:
        paths = log.slot_home.glob("changes/*/*/*.parquet")
        return {str(path.relative_to(log.slot_home)) for path in paths}

    # Files without a manifest are not there; a manifest without a note is.
    assert run("archive-files:2") == 8
    assert len({Path(file).parent for file in files()}) == 2
    assert run("archive-manifest") == 16
    assert log.noted() == [(begin, begin + 0x30 * 2)]
    before = files()
    process = log.source.start(*flags, job="archive", remote=remote)
    wait_until(lambda: bool(files() - before) or process.poll() is not None)
    kill(process)
    assert 16 <= archived_now() < 32
    assert run() == 32
    named = {file for manifest in manifests(log.slot_home) for file in manifest["files"]}
    assert named == files()
    assert len(manifests(log.slot_home, "baseline")) == 1
