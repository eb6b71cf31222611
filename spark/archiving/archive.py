"""The archive of one slot, as jobs read it: what its manifests name, and what its changes do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from common import gathering
from common.arrow import queries
from common.errors import ArchiveIncomplete
from common.gathering import Gathered, gather
from counting.reading import bucket_count
from deltas.gathered import Later, find_truncates, task_of, truncates_of
from pyspark.sql import SparkSession
from warehouse import groups

from archiving import files
from archiving.folder import Folder
from archiving.manifests import Contents
from waltally import lsn
from waltally.errors import SettingError
from waltally.facts import Fact, QueryFact


def refuse_queries(facts: Sequence[Fact], work: str, instead: str) -> None:
    """Raise SettingError where a fact is a query: an archive's changes are not evaluated yet."""
    names = ", ".join(fact.name for fact in facts if isinstance(fact, QueryFact))
    others = "".join(f" --fact {fact.name}" for fact in facts if not isinstance(fact, QueryFact))
    if names:
        raise SettingError(
            f"{names}: a {work} does not evaluate a model that is a query yet",
            instead + (f"; the other facts by{others}" if others else ""),
        )


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
    def buckets(self) -> int:
        """In how many buckets groups are added up."""
        return 1 if self._session is None else bucket_count(self.row_count)

    @property
    def _session(self) -> Callable[[], SparkSession] | None:
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

    def later(self, fact: Fact, begin: int, end: int) -> Later:
        """Return what the changes with begin <= commit_lsn < end do to a fact.

        Raises ArchiveIncomplete.
        """
        self.require(begin, end)
        names = self.contents.files(begin, end)
        files.require_there(self.folder, names)
        reads = [partial(files.counted_batches, self.folder, name, begin, end) for name in names]
        truncates = truncates_of(gather(self._session, reads, find_truncates))
        task = task_of([fact], self.slot, truncates, self.buckets)
        return Later(fact, self.slot, 0, gather(self._session, reads, task), truncates)

    def groups(self, fact: Fact, names: Sequence[str]) -> Gathered:
        """Return the groups of these files, by the parts of the fact. Raises ArchiveIncomplete."""
        files.require_there(self.folder, names)
        task = groups.tables_of(fact, self.buckets)
        return gather(self._session, files.reads_of(self.folder, names), task)

    def gathered(self, query: str, conninfo: str, snapshot: str, fact: Fact) -> Gathered:
        """Return the groups of a query, in the same buckets."""
        reads = queries(conninfo, [query], snapshot)
        return gather(self._session, reads, groups.tables_of(fact, self.buckets))
