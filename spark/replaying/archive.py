"""An archive that is read: replay and seed compute facts from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archiving import files, manifests
from archiving.folder import Folder
from archiving.manifests import Contents
from common.errors import ArchiveIncomplete
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from waltally import lsn


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
            found = files.read_changes(self.spark, self.folder, self.contents.files(begin, end))
        return found.where((sql.col("commit_lsn") >= begin) & (sql.col("commit_lsn") < end))

    def groups(self, names: Sequence[str]) -> DataFrame:
        """Return the groups of these files: part, dimensions, sums. Raises ArchiveIncomplete."""
        with missing_files_refused():
            return files.read_groups(self.spark, self.folder, list(names))


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
