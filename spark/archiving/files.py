"""The archive's Parquet files: writing, reading, and deleting what killed runs have left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common import changes
from common.errors import ArchiveIncomplete
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from archiving import baseline, manifests
from archiving.folder import Folder
from archiving.manifests import Contents
from waltally import lsn

CHANGES, BASELINES, ARCHIVED = "changes", "baselines", "archived_deletes"

SCHEMA = f"{changes.SCHEMA}, date string, range string"
"""The columns of the files of changes; date and range are folders."""


def write(rows: DataFrame, path: str, *partitions: str) -> None:
    """Add the rows to the Parquet files of a folder."""
    (
        rows.write.mode("append")
        .partitionBy(*partitions)
        .option("compression", "zstd")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .parquet(path)
    )


def read_changes(spark: SparkSession, folder: Folder, files: list[str]) -> DataFrame:
    """Return the changes of these files, with the columns of SCHEMA."""
    if not files:
        return spark.createDataFrame([], SCHEMA)
    # The folders of the path are columns.
    read = spark.read.schema(SCHEMA).option("basePath", folder.path(CHANGES))
    return read.parquet(*map(folder.path, files))


def read_groups(spark: SparkSession, folder: Folder, files: list[str]) -> DataFrame:
    """Return the groups of a baseline's files: part, dimensions, sums."""
    if not files:
        return spark.createDataFrame([], baseline.SCHEMA)
    return spark.read.schema(baseline.SCHEMA).parquet(*map(folder.path, files))


def delete_unnamed(folder: Folder, contents: Contents) -> None:
    """Delete the files that killed runs have left."""
    ranges = {part.name for part in contents.slices}
    baselines = {part.name for part in contents.baselines}
    unnamed = [
        *(name for name in folder.names(f"{CHANGES}/date=*/range=*") if _range(name) not in ranges),
        *(
            name
            for place in (BASELINES, ARCHIVED)
            for name in folder.names(f"{place}/*")
            if _last(name) not in baselines
        ),
        *folder.names(f"{CHANGES}/_temporary"),
        *folder.names(f"{manifests.FOLDER}/.*.draft"),
    ]
    for name in unnamed:
        folder.delete(name)


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _range(name: str) -> str:
    return _last(name).removeprefix("range=")


@dataclass(frozen=True)
class Archive:
    """The archive of one slot."""

    slot: str
    spark: SparkSession
    folder: Folder
    contents: Contents

    @classmethod
    def open(cls, spark: SparkSession, path: str, slot: str) -> Archive:
        """Return the slot's archive in a folder. Raises ArchiveIncomplete where it has none."""
        folder = Folder(spark, f"{path.rstrip('/')}/slot={slot}")
        contents = manifests.read(folder.texts(f"{manifests.FOLDER}/*.json"))
        if not contents.slices:
            raise ArchiveIncomplete(
                f"{folder.uri} holds no changes", "spark-submit spark/archive.py --to the same path"
            )
        return cls(slot, spark, folder, contents)

    @property
    def row_count(self) -> int:
        """How many changes and groups it holds."""
        changes = sum(part.rows for part in self.contents.slices)
        return changes + sum(each.groups for each in self.contents.baselines)

    def require(self, begin: int, end: int) -> None:
        """Raise ArchiveIncomplete where it lacks changes from `begin` up to `end`."""
        if not self.contents.holds(begin, end):
            raise ArchiveIncomplete(
                f"the changes from {lsn.show(begin)} up to {lsn.show(end)} are asked for; the"
                f" archive holds those from {lsn.show(self.contents.from_lsn)} up to"
                f" {lsn.show(self.contents.to_lsn)}",
                "archive again, or ask for another position",
            )

    def changes(self, begin: int, end: int) -> DataFrame:
        """Return the changes with begin <= commit_lsn < end. Raises ArchiveIncomplete."""
        self.require(begin, end)
        with missing_files_refused():
            found = read_changes(self.spark, self.folder, self.contents.files(begin, end))
        return found.where((sql.col("commit_lsn") >= begin) & (sql.col("commit_lsn") < end))

    def groups(self, names: Sequence[str]) -> DataFrame:
        """Return the groups of these files: part, dimensions, sums. Raises ArchiveIncomplete."""
        with missing_files_refused():
            return read_groups(self.spark, self.folder, list(names))


@contextlib.contextmanager
def missing_files_refused() -> Iterator[None]:
    """Raise ArchiveIncomplete where a file that is opened in the block is missing."""
    try:
        yield
    except AnalysisException as error:
        raise ArchiveIncomplete(
            f"a file that a manifest names cannot be read: {error.getCondition()},"
            f" {error.getMessageParameters()}",
            "bring the files back from a copy",
        ) from None
