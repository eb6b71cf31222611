"""What the tests of the archive share: logs that are archived, and plain reading of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
from waltally_jobs.archiving.continuity import ArchiveSettings

from tests.spark.support import Source
from waltally import lsn

COLUMNS = ("commit_lsn", "ordinal", "xid", "committed_at", "staged_at", "action", "payload")

_LOG = """
    select (commit_lsn - '0/0')::bigint, ordinal, xid, committed_at, staged_at, action::text,
        payload
    from cdc.change_log where slot_name = %s order by 1, 2
"""


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
            for ordinal in range(1, size + 1):
                self.run(
                    "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid,"
                    " committed_at, action, payload) values (%s, %s, %s, 7, %s, %s, %s)",
                    self.source.slot,
                    lsn.show(self.position),
                    ordinal,
                    at,
                    "I" if ordinal % 3 else None,
                    json.dumps({"action": "I", "é": "\n" * ordinal}, ensure_ascii=False),
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
        return self.source.execute(_LOG, self.source.slot)

    def read(self) -> list[list[Any]]:
        """What a reader who asks for position, number and payload gets."""
        return [[row[0], row[1], row[6]] for row in self.rows()]

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
