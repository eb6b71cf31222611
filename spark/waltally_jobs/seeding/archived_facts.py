"""What the facts' tables held at a position, from an archive alone.

A fact that has an archived baseline of its declaration goes on from it. Any other one is counted
from the archived current rows of its tables, which hold each row whole.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from counting import values
from counting.counts import NULL_DIMENSION, TableCounting, Uncounted, as_groups, as_uncounted
from counting.values import FactPart, Value
from deltas.gathered import Later
from rules import documents

from loader.source.table_identity import TableIdentities, TableIdentity, of_fact
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import combine
from waltally.facts import Fact, FactTable
from waltally_jobs.archiving import models as queries
from waltally_jobs.archiving.archive import Archive
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common import sums
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import ArchiveIncomplete, SnapshotTooOld
from waltally_jobs.common.gathering import Gathered, buckets_of
from waltally_jobs.evaluation import evaluating
from waltally_jobs.seeding.archived import WENT


@dataclass(frozen=True)
class Found:
    """What an archive says of a fact, and which tables the fact counted.

    `groups` gives its groups and what has none, with the columns counts.COLUMNS; those with WENT as
    the reason are archived deletes.
    """

    groups: Callable[[], Iterator[pa.RecordBatch]]
    identities: TableIdentities


def position(archive: Archive, slot: SlotPosition, settings: Settings) -> int:
    """Return where the baselines will be. Raises AnotherCluster, ArchiveIncomplete.

    Raises SnapshotTooOld where the change log does not go on from there.
    """
    contents = archive.contents
    contents.require_origin(slot, archive.folder.uri, "name the archive of this slot")
    at = contents.to_lsn if settings.at is None else settings.at
    archive.require(contents.from_lsn, at)
    if at < slot.start_lsn:
        end = "is asked for" if settings.at is not None else "is where the archive ends"
        raise SnapshotTooOld(
            f"{lsn.show(at)} {end}, and the change log starts at {lsn.show(slot.start_lsn)}: the"
            " changes between are in neither",
            "ask for a later position, or seed from the source: the same without --archive",
        )
    return at


def count(archive: Archive, facts: Sequence[Fact], at: int) -> list[Found]:
    """Return what the archive says of the facts at the position, in their order.

    Raises ArchiveIncomplete for all of which it does not say enough.
    """
    found, refused = [], []
    for fact in facts:
        try:
            found.append(_count_one(archive, fact, at))
        except ArchiveIncomplete as error:
            refused.append(error)
    if refused:
        raise combine(list(refused))
    return found


def identities(found: Sequence[Found]) -> TableIdentities:
    """Return which tables and columns the facts counted, as one record a table."""
    together: dict[str, TableIdentity] = {}
    for each in found:
        for label, identity in each.identities.items():
            known = together.get(label, identity)
            columns = {**known["column_numbers"], **identity["column_numbers"]}
            labels = {**known["labels"], **identity["labels"]}
            together[label] = {**identity, "column_numbers": columns, "labels": labels}
    return together


def _count_one(archive: Archive, fact: Fact, at: int) -> Found:
    for baseline in reversed(archive.contents.baselines_of(fact.name)):
        is_same = baseline.fact.declaration == fact.declaration
        if is_same and baseline.snapshot_lsn <= at:
            return Found(_continued(archive, baseline, at).groups, baseline.identities)
    return _counted(archive, fact, at)


@dataclass(frozen=True)
class _Continued:
    """A fact's own baseline with the changes up to a position.

    `stored` are the baseline's groups, in which the archived deletes `gone` are counted too.
    """

    baseline: Baseline
    later: Later
    stored: Gathered
    gone: Gathered
    buckets: int

    def groups(self) -> Iterator[pa.RecordBatch]:
        """Yield what is stored, what was purged and what is in no group."""
        fact, slot = self.baseline.fact, self.later.slot
        for bucket in buckets_of(fact, self.buckets):
            for part in fact.tables:
                rows = sums.without_zeros(self.rows(part, bucket))
                yield as_groups(fact, part, slot, rows)
                went = sums.added_for(
                    fact, [*self._gone(part, bucket), *self.later.archived(bucket, part.name)]
                )
                yield as_groups(fact, part, slot, went, WENT)
        for part in fact.tables:
            yield as_uncounted(fact, part, self.uncounted(part))

    def rows(self, part: FactTable, bucket: int | None) -> pa.Table:
        """Return the groups of the rows that are stored at the position."""
        fact, stored = self.baseline.fact, self.stored.tables(part.name, bucket)
        if fact.kind == "current_rows":
            return sums.added_for(fact, self.later.applied(stored))
        return sums.added_for(
            fact,
            [
                *(() if part.name in self.later.truncated else stored),
                *self.later.deltas(bucket, part.name),
                *sums.negated(self._gone(part, bucket)),
                *sums.negated(self.later.archived(bucket, part.name)),
            ],
        )

    def uncounted(self, part: FactTable) -> list[Uncounted]:
        """Return the rows of a part that are in no group."""
        left_out = self.later.left_out.get(part.name, 0)
        found: list[Uncounted] = []
        if part.name not in self.later.truncated:
            left_out += self.baseline.left_out.get(part.name, 0)
            found = [
                (each["row_count"], each["reason"], json.dumps(each["example"]))
                for each in self.baseline.rejections
                if each["part"] == part.name
            ]
        return [(left_out, NULL_DIMENSION, None), *found] if left_out else found

    def _gone(self, part: FactTable, bucket: int | None) -> list[pa.Table]:
        is_truncated = part.name in self.later.truncated
        return [] if is_truncated else self.gone.tables(part.name, bucket)


def _require_held(archive: Archive, baseline: Baseline, at: int) -> None:
    """Raise ArchiveIncomplete unless every change that the fact needs is archived."""
    fact, begin = baseline.fact, baseline.snapshot_lsn
    held = archive.contents.held_lsn(fact, at)
    if begin < at and (held is None or held > begin):
        since = "not known to hold" if held is None else f"from {lsn.show(held)} on"
        raise ArchiveIncomplete(
            f"the baseline of {fact.name} is at {lsn.show(begin)}, and its changes up to"
            f" {lsn.show(at)} are {since} in the archive",
            _seed_it(fact),
        )


def _continued(archive: Archive, baseline: Baseline, at: int) -> _Continued:
    """Return the fact's own baseline with the changes up to the position."""
    fact, begin = baseline.fact, baseline.snapshot_lsn
    _require_held(archive, baseline, at)
    later = archive.later(fact, begin, at)
    rejected_lsn = later.rejected.first_lsn
    if rejected_lsn is not None:
        raise ArchiveIncomplete(
            f"a change at {lsn.show(rejected_lsn)} cannot be counted for {fact.name}:"
            f" {later.rejected.first_reason}",
            f"give an --at up to {lsn.show(rejected_lsn)}; or {_seed_it(fact)}",
        )
    stored = archive.groups(fact, baseline.files)
    gone = archive.groups(fact, baseline.archived_files)
    return _Continued(baseline, later, stored, gone, archive.buckets)


def write_queries(
    target: TargetSession, archive: Archive, facts: Sequence[Fact], at: int
) -> tuple[list[Found], dict[int, int]]:
    """Write the groups of models that are queries, as the target evaluates them.

    Returns what was written by attempt. Raises ArchiveIncomplete.
    """
    baselines = [_own_baseline(archive, fact, at) for fact in facts]
    written: dict[int, int] = {}
    for baseline in baselines:
        fact, incoming = baseline.fact, target.incoming
        with evaluating.tables(target) as (moved, _):
            written |= queries.write(target, archive, baseline, at, moved, incoming, WENT)
        written |= queries.take_away(target, fact, incoming, WENT)
        emptied = archive.truncated(fact, baseline.snapshot_lsn, at)
        written |= _rejected(target, baseline, emptied)
    return [Found(lambda: iter(()), each.identities) for each in baselines], written


def _own_baseline(archive: Archive, fact: Fact, at: int) -> Baseline:
    """Return the newest archived baseline of the model as it is declared now."""
    for baseline in reversed(archive.contents.baselines_of(fact.name)):
        is_same = baseline.fact.declaration == fact.declaration
        if is_same and baseline.snapshot_lsn <= at:
            _require_held(archive, baseline, at)
            return baseline
    raise ArchiveIncomplete(
        f"the archive has no baseline of {fact.name} as its query is now at or before"
        f" {lsn.show(at)}",
        _seed_it(fact),
    )


def _rejected(
    target: TargetSession, baseline: Baseline, emptied: Collection[str]
) -> dict[int, int]:
    """Write the rows that the baseline could not count, but for those of emptied tables."""
    attempt, fact = secrets.randbits(62), baseline.fact
    rows = [each for each in baseline.rejections if each["part"] not in emptied]
    for each in rows:
        target.ask(
            f"insert into {target.incoming.quoted} (fact, part, dimensions, row_count, sums,"
            " reason, example, attempt) values (%s, %s, '{}', %s, '{}', %s, %s, %s)",
            (
                *(fact.name, each["part"], each["row_count"], each["reason"]),
                *(json.dumps(each["example"]), attempt),
            ),
        )
    return {attempt: len(rows)}


def _counted(archive: Archive, fact: Fact, at: int) -> Found:
    """Return the fact counted from the current rows of its tables."""
    parts: list[tuple[FactTable, _Continued]] = []
    identities: dict[str, TableIdentity] = {}
    for part in fact.tables:
        rows = _continued(archive, _rows_of(archive, fact, part, at), at)
        if missing := rows.uncounted(rows.baseline.fact.tables[0]):
            raise ArchiveIncomplete(
                f"{rows.baseline.fact.name} does not hold every row of {part.table}:"
                f" {missing[0][1]}",
                _seed_it(fact),
            )
        parts.append((part, rows))
        identities |= of_fact(rows.baseline.identities, fact)

    def groups() -> Iterator[pa.RecordBatch]:
        for part, rows in parts:
            needed = values.needed([fact], part.table)
            counted = [FactPart(fact, part)]
            counting = TableCounting(
                0, needed, counted, archive.slot, False, frozenset(), archive.buckets
            )
            held = rows.rows(rows.baseline.fact.tables[0], None)
            sent = _as_sent(rows.baseline.fact, held, needed)
            found = Gathered(list(counting.partials(iter(sent.to_batches()))))
            for bucket in range(archive.buckets):
                if tables := found.tables(counting.kind(0), bucket):
                    yield counting.groups(0, tables)

    return Found(groups, identities)


def _rows_of(archive: Archive, fact: Fact, part: FactTable, at: int) -> Baseline:
    """Return the newest archived current rows that have all that a table of the fact needs."""
    needed = set(fact.needed_columns(part))
    for each in reversed(archive.contents.baselines):
        rows = each.fact
        [own, *_] = rows.tables
        plain = (one.column for one in rows.dimensions if one.kind == "column" and one.column)
        columns = set(map(own.column, plain))
        is_whole = rows.kind == "current_rows" and not rows.where and own.table == part.table
        if is_whole and needed <= columns and each.snapshot_lsn <= at:
            return each
    raise ArchiveIncomplete(
        f"the archive has no baseline of {fact.name} as it is declared now at or before"
        f" {lsn.show(at)}, and no current rows of {part.table} with"
        f" {', '.join(sorted(needed)) or 'all of its rows'}",
        _seed_it(fact),
    )


def _as_sent(rows: Fact, held: pa.Table, needed: Sequence[Value]) -> pa.Table:
    """Return current rows as the server sends the values that a fact needs of them."""
    [own] = rows.tables
    keys = filter(sums.is_key, held.schema.names)
    from_columns = (each for each in rows.dimensions if each.column)
    texts = {
        own.column(str(each.column)): held[key]
        for key, each in zip(keys, from_columns, strict=True)
        if each.kind == "column"
    }
    # Of a fact that needs no column, rows are still counted.
    columns = {values.column_name(0): pa.repeat(pa.scalar(""), held.num_rows)}
    for place, value in enumerate(needed):
        for factor, name in enumerate(value.columns):
            found = texts[name]
            if value.kind == "path":
                at_path = (_at_path(text, value.path) for text in found.to_pylist())
                found = pa.array(at_path, pa.string())
            columns[values.column_name(place, factor)] = found
    return pa.table(columns)


def _at_path(text: str | None, path: Sequence[str]) -> str | None:
    try:
        found = None if text is None else documents.text_at(text, path)
    except (ValueError, RecursionError):
        return "!"
    return None if found is None else f"={found}"


def _seed_it(fact: Fact) -> str:
    return f"seed it from the source: `spark-submit spark/seed.py --model {fact.name}`"
