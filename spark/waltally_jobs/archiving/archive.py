"""The archive of one slot, as jobs read it: what its manifests name, and what its changes do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from waltally import lsn
from waltally.models import Model
from waltally.tables import Table
from waltally_jobs.archiving import files, truncates
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Contents
from waltally_jobs.common import gathering
from waltally_jobs.common.arrow import Read
from waltally_jobs.common.changes import Position
from waltally_jobs.common.errors import ArchiveIncomplete
from waltally_jobs.common.gathering import gather


@dataclass(frozen=True)
class Archive:
    """The archive of one slot."""

    slot: str
    start: Callable[[], SparkSession]
    """Gives the session."""
    folder: Folder
    contents: Contents

    @classmethod
    def open(cls, start: Callable[[], SparkSession], path: str, slot: str) -> Archive:
        """Return the slot's archive in a folder. Raises ArchiveIncomplete where it has none."""
        folder, contents = files.read_manifests(path, slot)
        if not contents.slices:
            raise ArchiveIncomplete(
                f"{folder.uri} holds no changes", "spark-submit spark/archive.py --to the same path"
            )
        return cls(slot, start, folder, contents)

    @property
    def row_count(self) -> int:
        """How many changes and groups it holds."""
        changes = sum(part.rows for part in self.contents.slices)
        return changes + sum(each.groups for each in self.contents.baselines)

    @property
    def session(self) -> Callable[[], SparkSession] | None:
        """What gives the session; None where there are so few rows that none is needed."""
        return None if self.row_count <= gathering.FEW_ROWS else self.start

    def require(self, begin: int, end: int) -> None:
        """Raise ArchiveIncomplete where it lacks changes from `begin` up to `end`."""
        if not self.contents.holds(begin, end):
            raise ArchiveIncomplete(
                f"the changes from {lsn.show(begin)} up to {lsn.show(end)} are asked for; the"
                f" archive holds those from {lsn.show(self.contents.from_lsn)} up to"
                f" {lsn.show(self.contents.to_lsn)}",
                "archive again, or ask for another position",
            )

    def reads(self, begin: int, end: int) -> list[Read]:
        """Return what reads changes with begin <= commit_lsn < end. Raises ArchiveIncomplete."""
        names = self.contents.files(begin, end)
        files.require_there(self.folder, names)
        return [partial(files.counted_batches, self.folder, name, begin, end) for name in names]

    def truncates(self, begin: int, end: int) -> dict[Table, Position]:
        """Return where each table was last emptied in between."""
        return truncates.last(
            gather(self.session, self.reads(begin, end), truncates.find, truncates.SCHEMA)
        )

    def truncated(self, model: Model, begin: int, end: int) -> set[str]:
        """Return the parts of a model that were emptied in between."""
        return {part.name for part in model.tables if part.table in self.truncates(begin, end)}
