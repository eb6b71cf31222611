"""What the tests of the archive share: logs that are archived, and plain reading of files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet
from waltally_jobs.archiving.continuity import ArchiveSettings
from waltally_jobs.data_source.change_log import Range

from tests.spark.support import Source
from waltally import lsn

COLUMNS = ("commit_lsn", "ordinal", "xid", "committed_at", "staged_at", "action", "payload")


class Log:
    """A change log whose changes the test writes itself."""

    def __init__(self, source: Source, home: Path) -> None:
        self.source = source
        self.home = home
        self.position = 0x10_0000
        self.run(
            "create table cdc.change_log_all partition of cdc.change_log"
            " for values from ('0/0') to ('FFFF/0')"
        )
        self.run(
            "update cdc.slot_position set (start_lsn, position_lsn) = (%s::pg_lsn, %s::pg_lsn)",
            lsn.show(self.position),
            lsn.show(self.position),
        )

    def run(self, statement: str, *values: object) -> None:
        self.source.execute(statement, *values)

    def append(self, *transactions: int, at: str = "2026-11-20T12:00:00Z") -> None:
        """Stage transactions of so many inserts, and move the position past them."""
        for size in transactions:
            self.run(
                "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at,"
                " action, payload) select %s, %s, n, 7, %s, case when n %% 3 > 0 then 'I' end,"
                " json_build_object('action', 'I', 'é', repeat(chr(10), n))"
                " from generate_series(1, %s) as n",
                *(self.source.slot, lsn.show(self.position), at, size),
            )
            self.position += 0x30
        self.run("update cdc.slot_position set position_lsn = %s", lsn.show(self.position))

    def prune(self, position: int) -> None:
        """Take away what is before the position, as `loader prune` does."""
        self.run("update cdc.slot_position set start_lsn = %s", lsn.show(position))
        self.run("delete from cdc.change_log where commit_lsn < %s", lsn.show(position))

    def settings(self) -> ArchiveSettings:
        return ArchiveSettings(
            self.source.dsn, self.source.slot, "cdc", str(self.home), slice_changes=5
        )

    def rows(self) -> list[tuple[Any, ...]]:
        return staged(self.source)

    def noted(self) -> list[tuple[Any, ...]]:
        """Where the target believes the archive to begin and to end."""
        return self.source.execute(
            "select (from_lsn - '0/0')::bigint, (archived_lsn - '0/0')::bigint"
            " from cdc.archive_position where slot_name = %s",
            self.source.slot,
        )

    @property
    def slot_home(self) -> Path:
        return self.home / f"slot={self.source.slot}"


def staged(source: Source) -> list[tuple[Any, ...]]:
    """Every change of a log, with the COLUMNS."""
    return source.execute(
        "select (commit_lsn - '0/0')::bigint, ordinal, xid, committed_at, staged_at, action::text,"
        " payload from cdc.change_log where slot_name = %s order by 1, 2",
        source.slot,
    )


def manifests(home: Path, kind: str = "changes") -> list[dict[str, Any]]:
    """The manifests of a slot's folder, read as anybody can."""
    found = [json.loads(path.read_text()) for path in sorted(home.glob("manifests/*.json"))]
    return [manifest for manifest in found if manifest["kind"] == kind]


def archived(home: Path) -> list[tuple[Any, ...]]:
    """Every change of a slot's folder, read as docs/archive.md says, without Spark."""
    rows: list[tuple[Any, ...]] = []
    for manifest in manifests(home):
        for file in manifest["files"]:
            table = pyarrow.parquet.ParquetFile(home / file).read(list(COLUMNS))
            for row in table.to_pylist():
                day = f"{row['committed_at']:%Y-%m-%d}"
                assert f"/date={day}/" in file
                rows.append(tuple(row[name] for name in COLUMNS))
    return sorted(rows, key=lambda row: row[:2])


def plain(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Rows of a log in its order; a time is a number, whoever has read it."""
    return sorted(
        tuple(each.timestamp() if isinstance(each, datetime) else each for each in row)
        for row in rows
    )


def rows_of(ranges: Iterable[Range]) -> list[tuple[Any, ...]]:
    """What the format `waltally` has in these ranges, read without Spark."""
    rows = (row for each in ranges for batch in each.batches() for row in batch.to_pylist())
    return plain([row[name] for name in COLUMNS] for row in rows)
