"""The archived changes as a Delta table: a log of commits beside the files, which stay as they are.

A commit adds the files of the slices that the table lacks, and has the position that it reaches as
the version of the application `waltally`. The manifests stay the truth: what a killed run has not
committed the next one commits.
"""

from __future__ import annotations

import json
import re

import pyarrow.parquet as pq

from waltally import lsn
from waltally.errors import SettingError
from waltally_jobs.archiving import files
from waltally_jobs.archiving.folder import Folder
from waltally_jobs.archiving.manifests import Contents
from waltally_jobs.common import arrow, changes
from waltally_jobs.common.errors import ArchiveIncomplete

APPLICATION = "waltally"


def check() -> None:
    """Raise SettingError where the package that writes the table is missing."""
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise SettingError(
            "--format delta needs the package deltalake", "pip install 'waltally[delta]'"
        ) from None


def publish(folder: Folder, contents: Contents) -> None:
    """Let the table have every change of the archive. Raises ArchiveIncomplete, SettingError."""
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction

    place = folder.path(files.CHANGES)
    schema = Schema.from_arrow(arrow.schema(f"{changes.SCHEMA}, date string"))
    try:
        if DeltaTable.is_deltatable(place):
            table = DeltaTable(place)
        else:
            settings = {"delta.appendOnly": "true"}
            table = DeltaTable.create(
                place, schema, partition_by=["date"], name="change_log", configuration=settings
            )
        reached = table.transaction_version(APPLICATION)
        begin = contents.from_lsn if reached is None else reached
        listed = table.get_add_actions(flatten=True).column("path").to_pylist()
        _require_same(place, {f"{files.CHANGES}/{path}" for path in listed}, contents, begin)
        if begin == contents.to_lsn:
            return
        named = contents.files(begin, contents.to_lsn)
        added: list[AddAction] = []
        for name in named:
            size, modified_at = folder.size_and_time(name)
            path = name.removeprefix(f"{files.CHANGES}/")
            day = {"date": path.partition("/")[0].removeprefix("date=")}
            added.append(AddAction(path, size, day, modified_at, True, _statistics(folder, name)))
        at = CommitProperties(app_transactions=[Transaction(APPLICATION, contents.to_lsn)])
        table.create_write_transaction([*added], "append", schema, ["date"], commit_properties=at)
    except (DeltaError, OSError) as error:
        raise SettingError(
            f"the Delta table in {place} cannot be written: {_one_line(error)}",
            "deltalake must reach the folder: a mounted one, s3://, gs:// or abfs://, with the"
            " credentials in the environment of the driver",
        ) from None


def _one_line(error: Exception) -> str:
    """Return the error without deltalake's lines, arrows and colours."""
    return " ".join(re.sub(r"\x1b\[\d+m|↳", "", str(error)).split())


def _require_same(home: str, listed: set[str], contents: Contents, end: int) -> None:
    """Raise ArchiveIncomplete unless the table has the archive's files up to its position."""
    begin = contents.from_lsn
    if not contents.holds(begin, end) or listed != set(contents.files(begin, end)):
        raise ArchiveIncomplete(
            f"the Delta table in {home} has other files up to {lsn.show(end)} than the manifests"
            " name: manifests were brought back from a copy, or somebody wrote to the table",
            f"delete {home}/_delta_log; the next run makes it again",
        )


def _statistics(folder: Folder, name: str) -> str:
    """Return a file's rows and bounds of commit_lsn, to skip it by."""
    read = pq.read_metadata(folder.at(name), filesystem=folder.files)
    place = read.schema.names.index("commit_lsn")
    groups = [
        read.row_group(number).column(place).statistics for number in range(read.num_row_groups)
    ]
    return json.dumps(
        {
            "numRecords": read.num_rows,
            "minValues": {"commit_lsn": min(each.min for each in groups)},
            "maxValues": {"commit_lsn": max(each.max for each in groups)},
            "nullCount": {"commit_lsn": 0},
        }
    )
