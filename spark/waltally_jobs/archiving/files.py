"""The Parquet files of an archive. Tasks write and read them; the driver names them in manifests.

Each attempt of a task writes files of its own. Spark gives the result of one attempt, so a file
that no result names is no part of the archive, and the next run deletes it.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from waltally.errors import SettingError
from waltally_jobs.archiving import manifests
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Contents
from waltally_jobs.common.arrow import Read, Task, made, one_line
from waltally_jobs.common.errors import ArchiveIncomplete, ReadFailed, WriteFailed

CHANGES, BASELINES, ARCHIVED = "changes", "baselines", "archived_deletes"


def written_by_day(folder: Folder, range_name: str) -> Task:
    """Return what writes changes into a file for each day on which they were committed."""

    def day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        days = pc.strftime(batch.column("committed_at"), "%Y-%m-%d")
        for each in pc.unique(days).to_pylist():
            place = f"{CHANGES}/date={each}/range={range_name}"
            yield place, batch.filter(pc.equal(days, each))

    return _written(folder, day)


def written_to(folder: Folder, place: str) -> Task:
    """Return what writes rows into files of one place."""
    return _written(folder, lambda batch: iter([(place, batch)]))


def _written(
    folder: Folder, placed: Callable[[pa.RecordBatch], Iterator[tuple[str, pa.RecordBatch]]]
) -> Task:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writers: dict[str, pq.ParquetWriter] = {}
        names: list[str] = []
        try:
            with contextlib.ExitStack() as stack:
                for place, batch in itertools.chain.from_iterable(map(placed, batches)):
                    if place not in writers:
                        folder.make(place)
                        names.append(f"{place}/part-{uuid.uuid4()}.parquet")
                        writers[place] = stack.enter_context(
                            pq.ParquetWriter(
                                folder.at(names[-1]),
                                batch.schema,
                                filesystem=folder.files,
                                compression="zstd",
                                write_page_checksum=True,
                            )
                        )
                    writers[place].write_batch(batch)
        except (OSError, pa.ArrowException) as error:
            raise WriteFailed(one_line(error)) from None
        yield pa.RecordBatch.from_pydict({"file": pa.array(names, pa.string())})

    return write


def stored(spark: SparkSession, reads: Sequence[Read], write: Task) -> tuple[str, ...]:
    """Return the names of the files that tasks write of these reads."""
    found = made(lambda: spark, reads, write, "file string")
    return tuple(sorted(name for batch in found for name in batch.column("file").to_pylist()))


def write_table(folder: Folder, place: str, table: pa.Table) -> None:
    """Write a table into a file of a place, also where it has no row."""
    folder.make(place)
    name = f"{place}/part-{uuid.uuid4()}.parquet"
    pq.write_table(table, folder.at(name), filesystem=folder.files, compression="zstd")


def row_count(folder: Folder, names: Sequence[str]) -> int:
    """Return how many rows the files have, as this machine reads them. Raises OSError."""
    return sum(
        int(pq.read_metadata(folder.at(name), filesystem=folder.files).num_rows) for name in names
    )


def require_there(folder: Folder, names: Sequence[str]) -> None:
    """Raise ArchiveIncomplete where one of these files is not there."""
    if missing := folder.missing(names):
        raise ArchiveIncomplete(
            f"{folder.path(missing[0])}, which a manifest names, is not there"
            + (f", and {len(missing) - 1} more" if len(missing) > 1 else ""),
            "bring the files back from a copy",
        )


def between(begin: int, end: int) -> pc.Expression:
    """Return the condition of changes with begin <= commit_lsn < end."""
    position = pc.field("commit_lsn")
    return (position >= begin) & (position < end)


def batches(
    folder: Folder,
    name: str,
    within: pc.Expression | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, of changes those within a condition. For executors.

    Raises ReadFailed.
    """
    import pyarrow.dataset as dataset

    try:
        checked = dataset.ParquetFileFormat(page_checksum_verification=True)
        found = dataset.dataset(folder.at(name), format=checked, filesystem=folder.files)
        for batch in found.to_batches(columns, filter=within):
            if batch.num_rows:
                yield batch
    except (OSError, pa.ArrowException) as error:
        raise ReadFailed(f"{folder.path(name)}: {one_line(error)}") from None


def first_after(folder: Folder, name: str, moment: datetime) -> int | None:
    """Return the position of a file's first change that was committed after a moment."""
    import pyarrow.dataset as dataset

    at = pa.scalar(moment.astimezone(UTC), pa.timestamp("us", "UTC"))
    found = dataset.dataset(folder.at(name), format="parquet", filesystem=folder.files)
    later = found.to_table(["commit_lsn"], filter=pc.field("committed_at") > at)
    first: int | None = pc.min(later["commit_lsn"]).as_py()
    return first


def read_manifests(path: str, slot: str) -> tuple[Folder, Contents]:
    """Return a slot's folder in an archive and what it holds. Raises SettingError."""
    folder = Folder.of(f"{path.rstrip('/')}/slot={slot}")
    try:
        names = [each for each in folder.names(manifests.FOLDER) if each.endswith(".json")]
        return folder, manifests.read(map(folder.text, names))
    except OSError as error:
        raise SettingError(
            f"{folder.uri} cannot be read: {one_line(error)}",
            "see that it is there, and that Spark's driver and executors have the right to read it:"
            " in a bucket, with its keys and region in their environment",
        ) from None


def read_archive(path: str, slot: str) -> tuple[Folder, Contents]:
    """Return the same of an archive that is read. Raises ArchiveIncomplete, SettingError."""
    folder, contents = read_manifests(path, slot)
    if not contents.slices:
        raise ArchiveIncomplete(
            f"{path} has no changes of the slot {slot}",
            "spark-submit spark/archive.py --to the same path, or name another one",
        )
    return folder, contents


def delete_unnamed(folder: Folder, contents: Contents) -> None:
    """Delete the files that killed runs have left."""
    named = {name for part in contents.slices for name in part.files}
    named |= {name for each in contents.baselines for name in (*each.files, *each.archived_files)}
    # A Delta table keeps its own log beside the days.
    found = [name for name in folder.names(CHANGES) if name.startswith(f"{CHANGES}/date=")]
    found += [name for place in (BASELINES, ARCHIVED) for name in folder.names(place)]
    drafts = [name for name in folder.names(manifests.FOLDER) if name.endswith(".draft")]
    for name in (*(name for name in found if name not in named), *drafts):
        folder.delete(name)
