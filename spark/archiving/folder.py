"""A folder on any file system that Spark can reach, through Hadoop's own interface."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from pyspark.sql import SparkSession

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
