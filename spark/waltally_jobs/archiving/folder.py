"""A folder on any file system that pyarrow reaches: a mounted one, S3, GCS, Azure or HDFS.

Driver and executors open it by its URI, each with the credentials of its own environment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from pyarrow import fs

from waltally.errors import SettingError

_WITH_FOLDERS = ("local", "hdfs")
"""Kinds of file system where a folder is made before its files, and a file may be renamed."""


@dataclass(frozen=True)
class Folder:
    """One folder, which need not exist; names are relative to it."""

    uri: str

    @classmethod
    def of(cls, path: str) -> Folder:
        """Return the folder of a path or URI. Raises SettingError where nothing reaches it."""
        if "://" in path:
            # Hadoop's name for the same.
            uri = path.replace("s3a://", "s3://", 1)
        else:
            uri = "file:" + str(Path(path.removeprefix("file:")).absolute())
        folder = cls(uri.rstrip("/"))
        assert folder._place
        return folder

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        if self.uri.startswith("file:"):
            return fs.LocalFileSystem(), self.uri.removeprefix("file:").replace("//", "", 1)
        try:
            files, home = fs.FileSystem.from_uri(self.uri)
        except (ValueError, OSError) as error:
            raise SettingError(
                f"{self.uri} cannot be reached: {error}",
                "give a place that pyarrow knows: a mounted folder, s3://, gs://, abfs:// or"
                " hdfs://, with its credentials in the environment of Spark's driver and executors",
            ) from None
        return files, home.rstrip("/")

    def __getstate__(self) -> dict[str, str]:
        """Executors open the file system themselves."""
        return {"uri": self.uri}

    @property
    def files(self) -> fs.FileSystem:
        """The file system."""
        return self._place[0]

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, which may be mounted on others too."""
        return str(self.files.type_name) == "local"

    def at(self, name: str = "") -> str:
        """Return what the file system calls a name; without one, this folder."""
        return f"{self._place[1]}/{name}" if name else self._place[1]

    def path(self, name: str) -> str:
        """Return the whole URI of a name."""
        return f"{self.uri}/{name}"

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return bool(self.files.get_file_info(self.at()).type != fs.FileType.NotFound)

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return those of the files that do not exist."""
        found = self.files.get_file_info([self.at(name) for name in names])
        return [
            name for name, each in zip(names, found, strict=True) if each.type != fs.FileType.File
        ]

    def names(self, place: str) -> list[str]:
        """Return the names of all files below a place of this folder, which need not exist."""
        chosen = fs.FileSelector(self.at(place), allow_not_found=True, recursive=True)
        found = self.files.get_file_info(chosen)
        home = f"{self.at()}/"
        return sorted(
            each.path.removeprefix(home) for each in found if each.type == fs.FileType.File
        )

    def text(self, name: str) -> str:
        """Return what a file says."""
        with self.files.open_input_stream(self.at(name)) as stream:
            return str(stream.read().decode())

    def size_and_time(self, name: str) -> tuple[int, int]:
        """Return the bytes of a file, and when it was written, in milliseconds since 1970."""
        found = self.files.get_file_info(self.at(name))
        return int(found.size), int(found.mtime_ns) // 1_000_000

    def delete(self, name: str) -> None:
        """Delete a file."""
        self.files.delete_file(self.at(name))

    def make(self, place: str) -> None:
        """Make a folder, where the file system has any."""
        if str(self.files.type_name) in _WITH_FOLDERS:
            self.files.create_dir(self.at(place), recursive=True)

    def write(self, name: str, text: str) -> None:
        """Write a small file that appears whole and durable, or not at all."""
        place = PurePosixPath(name)
        self.make(str(place.parent))
        is_renamed = str(self.files.type_name) in _WITH_FOLDERS
        # An object appears when it is whole.
        draft = str(place.with_name(f".{place.name}.draft")) if is_renamed else name
        with self.files.open_output_stream(self.at(draft)) as stream:
            stream.write(text.encode())
        if is_renamed:
            self.make_durable([draft])
            self.files.move(self.at(draft), self.at(name))
        self.make_durable([name])

    def make_durable(self, names: Iterable[str]) -> None:
        """Return when the files survive a power loss.

        On object stores and HDFS a closed file does. On a local file system, the files and all
        folders above them are synced here: any may be as new as they are. One that may not be read
        is not of this user's making.
        """
        if not self.is_local:
            return
        files = [PurePosixPath(self.at(name)) for name in names]
        for place in {*files, *(above for file in files for above in file.parents)}:
            with contextlib.suppress(PermissionError):
                descriptor = os.open(place, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
