"""Asks the warehouse and the archive what there is to read, beside Spark's driver."""

from __future__ import annotations

import itertools

from archiving import manifests
from archiving.manifests import Contents
from common import changes, slot_position
from common.connections import connect, resolved
from common.errors import ArchiveIncomplete, SnapshotTooOld
from pyarrow import fs

from loader.staging.records import SlotPosition
from reading.options import Options
from reading.ranges import ArchivedRange, LogRange, Range
from waltally import lsn
from waltally.errors import SettingError
from waltally.tables import Table


class Log:
    """A slot's changes: those of the archive, where one is named, and those of the change log."""

    def __init__(self, options: Options) -> None:
        """Open a session at the warehouse, and read the archive's manifests. Raises LoaderError."""
        self._options = options
        self._target = connect(options.target, "target", "data source")
        self._contents = Contents()
        if options.archive is not None:
            self._contents = read_manifests(options.archive, options.slot)

    def close(self) -> None:
        """End the session."""
        self._target.close()

    @property
    def begin(self) -> int:
        """The first position from which on everything is there."""
        start = self._slot().start_lsn
        return min(start, self._contents.from_lsn) if self._reaches(start) else start

    @property
    def end(self) -> int:
        """Everything before this position is there."""
        return self._slot().position_lsn

    def cut(self, begin: int, end: int, most: int) -> int:
        """Return where about so many changes end, between two transactions.

        A slice of the archive is not cut.
        """
        count = 0
        for part in self._contents.slices:
            if begin < part.to_lsn and part.from_lsn < end:
                count += part.rows
                if count >= most:
                    return min(end, part.to_lsn)
        begin = max(begin, self._contents.to_lsn)
        place = (self._options.schema, self._options.slot, begin, end)
        return next(changes.ends(self._target, *place, max(1, most - count)), end)

    def ranges(self, begin: int, end: int) -> list[Range]:
        """Return ranges that hold each change with begin <= commit_lsn < end once.

        Raises SnapshotTooOld where not all are there.
        """
        slot = self._slot()
        archived_lsn = self._archived(begin, end)
        if archived_lsn < min(slot.start_lsn, end) and self._options.archive is not None:
            # A stream that runs for long: the archive has grown, and the log was pruned.
            self._contents = read_manifests(self._options.archive, self._options.slot)
            archived_lsn = self._archived(begin, end)
        if end > slot.position_lsn or archived_lsn < min(slot.start_lsn, end):
            raise SnapshotTooOld(
                f"the changes from {lsn.show(begin)} up to {lsn.show(end)} are asked for; the"
                f" change log holds those from {lsn.show(slot.start_lsn)} up to"
                f" {lsn.show(slot.position_lsn)}"
                + (f", and the archive {self._held()}" if self._options.archive else ""),
                "ask for others, or name an archive that has them with the option archive",
            )
        options = self._options
        found: list[Range] = [
            ArchivedRange(
                options.slot,
                max(begin, part.from_lsn),
                min(archived_lsn, part.to_lsn),
                str(options.archive),
                file,
            )
            for part in self._contents.slices
            if part.from_lsn < archived_lsn and begin < part.to_lsn
            for file in part.files
        ]
        cuts = [
            archived_lsn,
            *changes.ends(self._target, options.schema, options.slot, archived_lsn, end),
        ]
        conninfo = resolved(self._target)
        found += [
            LogRange(options.slot, *bounds, options.schema, conninfo)
            for bounds in itertools.pairwise(cuts)
        ]
        return found

    def register(self, reader: str, position: int) -> None:
        """Let `loader prune` keep what a reader has not read, which begins at the position."""
        self._target.execute(
            f"insert into {Table(self._options.schema, 'reader_position').quoted}"
            " (slot_name, reader, applied_lsn) values (%s, %s, %s) on conflict do nothing",
            (self._options.slot, reader, lsn.show(position)),
        )

    def move(self, reader: str, position: int) -> None:
        """Write down that a reader has read everything before the position."""
        self._target.execute(
            f"update {Table(self._options.schema, 'reader_position').quoted}"
            " set applied_lsn = %s, moved_at = now() where slot_name = %s and reader = %s",
            (lsn.show(position), self._options.slot, reader),
        )

    def _slot(self) -> SlotPosition:
        return slot_position.read(self._target, self._options.schema, self._options.slot)

    def _archived(self, begin: int, end: int) -> int:
        """Return up to where the archive has the changes from `begin` on."""
        held = self._contents.slices and self._contents.from_lsn <= begin
        return max(begin, min(end, self._contents.to_lsn)) if held else begin

    def _reaches(self, position: int) -> bool:
        return bool(self._contents.slices) and position <= self._contents.to_lsn

    def _held(self) -> str:
        begin, end = self._contents.from_lsn, self._contents.to_lsn
        return f"those from {lsn.show(begin)} up to {lsn.show(end)}"


def file_system(archive: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of an archive, and the path in it. Raises SettingError, OSError."""
    if "://" not in archive:
        return fs.LocalFileSystem(), archive.removeprefix("file:").rstrip("/")
    try:
        files, path = fs.FileSystem.from_uri(archive.replace("s3a://", "s3://", 1))
    except ValueError as error:
        raise SettingError(
            f"the archive {archive} cannot be reached: {error}",
            "give a path that pyarrow knows: a mounted folder, s3://, gs://, abfs:// or hdfs://",
        ) from None
    return files, path.rstrip("/")


def read_manifests(archive: str, slot: str) -> Contents:
    """Return what the slot's archive holds. Raises ArchiveIncomplete, SettingError."""
    texts = []
    try:
        files, home = file_system(archive)
        place = fs.FileSelector(f"{home}/slot={slot}/{manifests.FOLDER}", allow_not_found=True)
        for found in files.get_file_info(place):
            if found.path.endswith(".json"):
                with files.open_input_stream(found.path) as stream:
                    texts.append(stream.read().decode())
    except OSError as error:
        raise SettingError(
            f"the archive {archive} cannot be read: {error}",
            "see that it is there, and that Spark's driver and executors have the right to read it:"
            " in a bucket, with its keys and region in their environment",
        ) from None
    contents = manifests.read(texts)
    if not contents.slices:
        raise ArchiveIncomplete(
            f"{archive} has no changes of the slot {slot}",
            "run spark/archive.py --to the same path, or leave the option archive out",
        )
    return contents
