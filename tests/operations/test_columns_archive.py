"""What `--columns` leaves out is not in the archive either."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from testkit.databases import Database
from testkit.spark_jobs import run_job

MARKER = "zebra-4712"


def archived(source: Database, to: Path) -> list[str]:
    """Archive what is staged, and return each change in the Parquet files as text, in order."""
    said = run_job(f"spark-submit spark/archive.py --to {to}", source.environment())
    assert MARKER not in said
    rows = [
        row
        for path in to.rglob("changes/**/*.parquet")
        for row in pyarrow.parquet.ParquetFile(path).read().to_pylist()
    ]
    return [str(row) for row in sorted(rows, key=lambda row: (row["commit_lsn"], row["ordinal"]))]


def write(source: Database) -> None:
    source.insert(2, text=MARKER)
    source.execute("update notifications set reference = %s", MARKER)
    source.execute("delete from notifications")


@pytest.mark.slow
def test_what_is_not_kept_is_in_no_file(source: Database, tmp_path: Path) -> None:
    source.must("setup")
    write(source)
    source.must("run", "--once", "--columns", "id")
    write(source)
    source.must("run", "--once")
    rows = archived(source, tmp_path / "archive")
    assert [MARKER in row for row in rows] == [False] * 6 + [True] * 6
