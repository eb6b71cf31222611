"""The archive of one slot, as jobs read it: what its manifests name, and what its changes do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow.compute as compute

from waltally import lsn
from waltally.tables import Table
from waltally_jobs.archiving import files
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Baseline, Contents
from waltally_jobs.common import arrow, messages
from waltally_jobs.common.arrow import Read, Start
from waltally_jobs.common.errors import ArchiveIncomplete
from waltally_jobs.common.messages import Position

_COUNTED = ["commit_lsn", "ordinal", "action", "payload"]
"""What counting needs of a change."""


@dataclass(frozen=True)
class Archive:
    """The archive of one slot."""

    slot: str
    start: Start
    folder: Folder
    contents: Contents

    @classmethod
    def open(cls, start: Start, path: str, slot: str) -> Archive:
        """Return the slot's archive in a folder. Raises ArchiveIncomplete where it has none."""
        return cls(slot, start, *files.read_archive(path, slot))

    @property
    def session(self) -> Start | None:
        """What starts Spark; None where there are so few rows that none is needed."""
        changes = sum(part.rows for part in self.contents.slices)
        groups = sum(each.groups for each in self.contents.baselines)
        return None if changes + groups <= arrow.FEW_ROWS else self.start

    def require(self, begin: int, end: int) -> None:
        """Raise ArchiveIncomplete where it lacks changes from `begin` up to `end`."""
        if not self.contents.holds(begin, end):
            raise ArchiveIncomplete(
                f"the changes from {lsn.show(begin)} up to {lsn.show(end)} are asked for; the"
                f" archive holds those from {lsn.show(self.contents.from_lsn)} up to"
                f" {lsn.show(self.contents.to_lsn)}",
                "archive again, or ask for another position",
            )

    def require_held(self, baseline: Baseline, end: int, held: int | None, remedy: str) -> None:
        """Raise ArchiveIncomplete where the log held what the model needs from too late on."""
        begin = baseline.snapshot_lsn
        if begin < end and (held is None or held > begin):
            since = "not known to hold" if held is None else f"from {lsn.show(held)} on"
            raise ArchiveIncomplete(
                f"the baseline of {baseline.model.name} is at {lsn.show(begin)}, and its changes up"
                f" to {lsn.show(end)} are {since} in the archive",
                remedy,
            )

    def reads(self, begin: int, end: int) -> list[Read]:
        """Return what reads changes with begin <= commit_lsn < end. Raises ArchiveIncomplete."""
        names = self.contents.files(begin, end)
        files.require_there(self.folder, names)
        within = files.between(begin, end)
        return [partial(files.batches, self.folder, name, within, _COUNTED) for name in names]

    def truncates(self, begin: int, end: int) -> dict[Table, Position]:
        """Return where each table was last emptied in between, as this machine reads the files."""
        action = compute.field("action")
        within = files.between(begin, end) & (action.is_null() | (action == "T"))
        return messages.truncates(
            ((row["commit_lsn"], row["ordinal"]), row["payload"].encode())
            for name in self.contents.files(begin, end)
            # Few files have any: their long payloads are not read.
            if any(files.batches(self.folder, name, within, ["action"]))
            for batch in files.batches(self.folder, name, within, _COUNTED)
            for row in batch.to_pylist()
        )
