"""The archive's Parquet files: writing, reading, and deleting what killed runs have left."""

from __future__ import annotations

from common import changes
from pyspark.sql import DataFrame, SparkSession

from archiving import baseline, manifests
from archiving.folder import Folder
from archiving.manifests import Contents

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
