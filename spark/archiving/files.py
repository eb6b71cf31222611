"""The archive's folder and its Parquet files, on any file system that Spark can reach."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from common import changes
from common.errors import ArchiveIncomplete
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from archiving import baseline, manifests
from archiving.manifests import Contents
from waltally import lsn
from waltally.errors import SettingError

_PATTERN = frozenset("*?[]{}\\")


class Folder:
    """One folder; names are relative to it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Find the path's file system; the folder need not exist. Raises SettingError."""
        if _PATTERN & set(path):
            raise SettingError(
                f"{path!r} has a character that Spark reads as a pattern",
                "give a path without * ? [ ] { } and backslashes",
            )
        self._spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        given = jvm.org.apache.hadoop.fs.Path(path)
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        self._files: Any = given.getFileSystem(hadoop)
        self.uri: str = self._files.makeQualified(given).toString().rstrip("/")

    @property
    def remedy(self) -> str:
        """What helps where files are missing that executors have just written."""
        is_alone = str(self._spark.sparkContext.master).startswith("local")
        if is_alone or not self.uri.startswith("file:"):
            return "run the archive again"
        return (
            f"give --to a place that all machines of the cluster share: s3a:, hdfs: or a mounted"
            f" folder. {self.uri} is a folder of each machine's own; where it is mounted on all,"
            " run the archive again"
        )

    def path(self, name: str) -> str:
        """Return the whole path of a name."""
        return f"{self.uri}/{name}"

    def exists(self, name: str = "") -> bool:
        """Return whether the file or folder exists; without a name, whether this folder does."""
        return bool(self._files.exists(self._at(name)))

    def names(self, pattern: str) -> list[str]:
        """Return the names that match."""
        found = self._files.globStatus(self._at(pattern)) or ()
        return [each.getPath().toString().removeprefix(f"{self.uri}/") for each in found]

    def texts(self, pattern: str) -> list[str]:
        """Return the contents of the files that match; executors read, as there may be many."""
        if not self.names(pattern):
            return []
        read = self._spark.read.text(self.path(pattern), wholetext=True)
        return [str(row[0]) for row in read.collect()]

    def size_and_time(self, name: str) -> tuple[int, int]:
        """Return the bytes of a file, and when it was written, in milliseconds since 1970."""
        found = self._files.getFileStatus(self._at(name))
        return int(found.getLen()), int(found.getModificationTime())

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, where it exists."""
        self._files.delete(self._at(name), True)

    def write(self, name: str, text: str) -> None:
        """Write a small file that appears whole and durable, or not at all."""
        place = PurePosixPath(name)
        draft = str(place.with_name(f".{place.name}.draft"))
        out = self._files.create(self._at(draft), True)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()
        self.make_durable([draft])
        if not self._files.rename(self._at(draft), self._at(name)):
            raise OSError(f"{self.path(draft)} could not be renamed to {name}")
        self.make_durable([name])

    def make_durable(self, names: Iterable[str]) -> None:
        """Return when the files survive a power loss.

        On object stores and HDFS a closed file does. On a local file system, the files and the
        folders that name them are synced here.
        """
        if not self.uri.startswith("file:"):
            return
        places: set[PurePosixPath] = set()
        root = PurePosixPath(self._at("").toUri().getPath())
        for name in names:
            place = root / name
            places |= {place, *(above for above in place.parents if above.is_relative_to(root))}
        for place in (*places, root.parent):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name) if name else self.uri)


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
