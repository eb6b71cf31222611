"""The audit's report, for a person and as JSON (docs/audit.md). Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from facts.rejected import Rejected
from rich.console import Group, RenderableType
from rich.table import Table

from waltally import lsn

JSON_VERSION = 2
"""To be raised when a field of the JSON changes its meaning or is removed."""


Archived = Literal["exact", "at-least"]
"""Whether archived counts must equal the archive's stored and purged rows, or may be larger.

They may be larger where not all purged rows are known: the fact still counts those.
"""


class _Compared:
    """A count in the fact and the right one."""

    fact: int
    counted: int

    @property
    def difference(self) -> int:
        """How much too large the fact's count is; negative where it is too small."""
        return self.fact - self.counted


@dataclass(frozen=True)
class Difference(_Compared):
    """A wrong count: the fact's `column`, its value there and the right one, `counted`."""

    service_id: str
    template_id: str
    notification_type: str
    notification_status: str
    column: str
    fact: int
    counted: int


@dataclass(frozen=True)
class Total(_Compared):
    """One part of the counts, over all groups."""

    fact: int
    counted: int


@dataclass(frozen=True)
class Comparison:
    """The fact against the counts: the largest `differences`, and `difference_count` of all.

    Of all differences, `above_count` are an archived_count that is too large.
    """

    group_count: int
    live: Total
    archive: Total
    difference_count: int
    differences: list[Difference]
    above_count: int = 0


@dataclass(frozen=True)
class LeftOut:
    """Rows of one table that cannot be counted, for one reason."""

    source_table: str
    reason: str
    row_count: int


@dataclass(frozen=True)
class Report:
    """The fact against the tables at `snapshot_lsn`.

    The fact is read at `fact_lsn` and brought to the snapshot by the `change_count` changes
    between. `purged_count` rows are known to be purged from the archive; `unseen` says why there
    may be more, null where these are all. `notes` are known causes of differences. `is_whole` says
    that the fact's baseline and the changes since then are stored, so that it can be rebuilt.
    """

    slot: str
    fact_table: str
    archived: Archived
    unseen: str | None
    purged_count: int
    fact_lsn: int
    snapshot_lsn: int
    change_count: int
    comparison: Comparison
    rejected: Rejected
    left_out: list[LeftOut]
    notes: list[str]
    is_whole: bool
    seconds: float

    def remedy(self) -> str:
        """Return what makes the fact right, as the end of an error."""
        anew = "`spark-submit spark/seed.py`, then `dbt build`"
        if self.comparison.above_count:
            # Without the flag a seed counts the excess of an archived_count as purged rows.
            anew = (
                "`spark-submit spark/seed.py --forget-purged`, then `dbt build`: that counts the"
                " stored rows alone, without those that were purged from the archive"
            )
        if self.is_whole:
            return f"`dbt build --full-refresh`; if the audit differs after that, {anew}"
        return anew

    def as_json(self) -> dict[str, Any]:
        """Return what --json prints: a contract."""
        comparison, first = self.comparison, self.rejected.first_lsn
        return {
            "version": JSON_VERSION,
            "equal": comparison.difference_count == 0,
            "slot": self.slot,
            "fact": self.fact_table,
            "archived": self.archived,
            "unseen": self.unseen,
            "purged_count": self.purged_count,
            "fact_lsn": lsn.show(self.fact_lsn),
            "snapshot_lsn": lsn.show(self.snapshot_lsn),
            "change_count": self.change_count,
            "group_count": comparison.group_count,
            "totals": {
                "live_count": _with_difference(comparison.live),
                "archived_count": _with_difference(comparison.archive),
            },
            "difference_count": comparison.difference_count,
            "differences": [_with_difference(each) for each in comparison.differences],
            "rejected": {
                "count": self.rejected.count,
                "first_lsn": None if first is None else lsn.show(first),
            },
            "left_out": [asdict(each) for each in self.left_out],
            "notes": self.notes,
            "seconds": round(self.seconds, 1),
        }

    def render(self) -> RenderableType:
        """Return the report as tables."""
        comparison = self.comparison
        parts: list[RenderableType] = []
        if comparison.differences:
            parts.append(_differences(comparison.differences))
        if hidden := comparison.difference_count - len(comparison.differences):
            parts.append(f"and {hidden:,} differences that are not larger; --limit shows more")
        parts += [f"Note: {note}" for note in self.notes if comparison.difference_count]
        parts += [
            f"Left out: {each.row_count:,} rows of {each.source_table}: {each.reason}"
            for each in self.left_out
        ]
        if self.unseen is None:
            parts.append(
                f"{self.purged_count:,} rows that were purged from the archive stay counted"
            )
        else:
            parts.append(
                "archived_count may be too high without being listed, as not all purged rows are"
                f" known: {self.unseen}"
            )
        parts.append(_totals(comparison))
        parts.append(
            f"{comparison.difference_count:,} differences in {comparison.group_count:,} groups of"
            f" {self.fact_table}, read at {lsn.show(self.fact_lsn)}, and the tables at"
            f" {lsn.show(self.snapshot_lsn)}, {self.change_count:,} changes later;"
            f" {self.seconds:.1f} s"
        )
        return Group(*parts)


def _differences(found: list[Difference]) -> Table:
    table = Table("service", "template", "type", "status", "column", box=None)
    for name in ("fact", "counted", "difference"):
        table.add_column(name, justify="right")
    for each in found:
        table.add_row(
            each.service_id,
            each.template_id,
            each.notification_type,
            each.notification_status,
            each.column,
            f"{each.fact:,}",
            f"{each.counted:,}",
            f"{each.difference:+,}",
        )
    for column in table.columns:
        column.no_wrap = True
    return table


def _with_difference(each: Difference | Total) -> dict[str, Any]:
    return {**asdict(each), "difference": each.difference}


def _totals(comparison: Comparison) -> Table:
    table = Table("total", box=None)
    for name in ("fact", "counted", "difference"):
        table.add_column(name, justify="right")
    for column, total in (("live_count", comparison.live), ("archived_count", comparison.archive)):
        table.add_row(column, f"{total.fact:,}", f"{total.counted:,}", f"{total.difference:+,}")
    return table
