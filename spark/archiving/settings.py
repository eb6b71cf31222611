"""Settings of the archive, under the loader's names."""

from __future__ import annotations

from dataclasses import dataclass, field

from waltally.settings import check_names

CHANGES_PER_SLICE = 3_200_000
"""One or two minutes of work; a killed run loses at most one slice."""


@dataclass(frozen=True)
class ArchiveSettings:
    """Which slot's change log goes where; the connection string may hold a password.

    `path` is of any file system that Spark reaches. With `is_delta` the changes are a Delta table
    too. Raises SettingError.
    """

    target: str = field(repr=False)
    slot: str
    schema: str
    path: str
    slice_changes: int = CHANGES_PER_SLICE
    is_delta: bool = False

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)
