"""The manifests of an archive. A file that no manifest names is no part of the archive. Pure.

A manifest is one JSON object, of a slice of the change log or of a baseline. It is written whole,
after its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import AnotherCluster
from waltally.models import Model
from waltally_jobs.common.errors import ArchiveIncomplete

VERSION = 5
FOLDER = "manifests"


@dataclass(frozen=True)
class Origin:
    """The cluster and database of the changes; an archive holds those of one cluster."""

    system_identifier: str
    source_database: str

    @classmethod
    def of(cls, slot: SlotPosition) -> Origin:
        """Return the origin of the slot's changes."""
        return cls(slot.system_identifier, slot.source_database)


@dataclass(frozen=True)
class Slice:
    """All changes with from_lsn <= commit_lsn < to_lsn; `files` are paths in the slot's folder."""

    origin: Origin
    from_lsn: int
    to_lsn: int
    rows: int
    files: tuple[str, ...]
    models: tuple[Model, ...] = ()
    """The models that were registered when it was archived."""
    held: Mapping[str, int] = field(default_factory=dict)
    """By model, from which position on the log held every change that it needs; without those of
    which the log did not."""
    emptied: Mapping[str, int] = field(default_factory=dict)
    """By model, before which position rows whose deletes it ignores went without a change."""
    kind: Literal["changes"] = "changes"
    version: int = VERSION

    @property
    def name(self) -> str:
        """The name of its range, in the order of positions."""
        return f"{self.from_lsn:016X}-{self.to_lsn:016X}"


@dataclass(frozen=True)
class Baseline:
    """A baseline of a model: what each group had at snapshot_lsn."""

    origin: Origin
    model: Model
    baseline_id: str
    snapshot_lsn: int
    groups: int
    files: tuple[str, ...]
    archived_files: tuple[str, ...] = ()
    """The archived deletes that are in its groups, as groups of their own."""
    identities: Mapping[str, Any] = field(default_factory=dict)
    """As `table_identities` in cdc.baseline."""
    rejections: tuple[Mapping[str, Any], ...] = ()
    """As in cdc.baseline_rejection."""
    kind: Literal["baseline"] = "baseline"
    version: int = VERSION

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from others: models that were counted together may share the id."""
        return self.model.name, self.baseline_id

    @property
    def name(self) -> str:
        """The name of its folder, in the order of positions."""
        return f"{self.snapshot_lsn:016X}-{self.baseline_id}-{quote(self.model.name, safe='')}"


@dataclass(frozen=True)
class Contents:
    """An archive of one slot: slices without a gap, and baselines, in the order of positions."""

    slices: tuple[Slice, ...] = ()
    baselines: tuple[Baseline, ...] = ()

    @property
    def from_lsn(self) -> int:
        """The first position that is archived; 0 where none is."""
        return self.slices[0].from_lsn if self.slices else 0

    @property
    def to_lsn(self) -> int:
        """Every change from from_lsn on and before this is archived."""
        return self.slices[-1].to_lsn if self.slices else 0

    @property
    def origins(self) -> frozenset[Origin]:
        """The origins of the changes and baselines."""
        return frozenset(
            [part.origin for part in self.slices] + [part.origin for part in self.baselines]
        )

    def require_origin(self, slot: SlotPosition, place: str, remedy: str) -> None:
        """Raise AnotherCluster where the archive, which is at this place, is not of the slot."""
        if others := self.origins - {Origin.of(slot)}:
            other = min(others, key=str)
            raise AnotherCluster(
                f"{place} holds changes of database {other.source_database} of cluster"
                f" {other.system_identifier}; the change log is of {slot.source_database} of"
                f" {slot.system_identifier}",
                remedy,
            )

    def at(self, position: int) -> Slice | None:
        """Return the slice with the last changes before the position."""
        return next((p for p in self.slices if p.from_lsn < position <= p.to_lsn), None)

    def baselines_of(self, name: str) -> tuple[Baseline, ...]:
        """Return the baselines of a model, in the order of positions."""
        return tuple(each for each in self.baselines if each.model.name == name)

    def holds(self, from_lsn: int, to_lsn: int) -> bool:
        """Return whether every change with from_lsn <= commit_lsn < to_lsn is archived."""
        return from_lsn == to_lsn or self.from_lsn <= from_lsn < to_lsn <= self.to_lsn

    def files(self, from_lsn: int, to_lsn: int) -> list[str]:
        """Return the files that may have changes with from_lsn <= commit_lsn < to_lsn."""
        return [
            file
            for part in self.slices
            if part.from_lsn < to_lsn and from_lsn < part.to_lsn
            for file in part.files
        ]


class _Head(msgspec.Struct):
    version: int
    kind: Literal["changes", "baseline"]


def text(manifest: Slice | Baseline) -> str:
    """Return the manifest as JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1).decode() + "\n"


def read(texts: Iterable[str]) -> Contents:
    """Return the archive's contents. Raises ArchiveIncomplete where slices are missing."""
    slices, baselines = [], []
    for each in texts:
        try:
            head = msgspec.json.decode(each, type=_Head)
            if head.version != VERSION:
                raise ArchiveIncomplete(
                    f"a manifest has version {head.version}, this program knows {VERSION}",
                    "use the version of waltally that wrote it",
                )
            if head.kind == "changes":
                slices.append(msgspec.json.decode(each, type=Slice))
            else:
                baselines.append(msgspec.json.decode(each, type=Baseline))
        except msgspec.DecodeError as error:
            raise ArchiveIncomplete(
                f"a manifest cannot be read: {error}, in {each[:80]!r}",
                f"bring {FOLDER}/ back from a copy, or archive to a new place",
            ) from None
    slices.sort(key=lambda part: (part.from_lsn, part.to_lsn))
    for before, after in pairwise(slices):
        if before.to_lsn != after.from_lsn:
            raise ArchiveIncomplete(
                f"one slice ends at {lsn.show(before.to_lsn)} and the next begins at"
                f" {lsn.show(after.from_lsn)}",
                f"bring {FOLDER}/ back from a copy, or archive to a new place",
            )
    baselines.sort(key=lambda part: part.snapshot_lsn)
    return Contents(tuple(slices), tuple(baselines))
