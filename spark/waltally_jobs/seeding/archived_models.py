"""What the models held at a position, from an archive: each goes on from its archived baseline."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from loader.source.table_identity import TableIdentities
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.models import Model
from waltally.tables import Table, literal
from waltally_jobs.archiving import models as queries
from waltally_jobs.archiving.archive import Archive
from waltally_jobs.archiving.manifests import Baseline
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import ArchiveIncomplete, SnapshotTooOld
from waltally_jobs.evaluation import evaluating
from waltally_jobs.seeding.archived import WENT


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


def identities(found: Sequence[Baseline]) -> TableIdentities:
    """Return which tables and columns the models counted, as one record a table."""
    together: dict[str, Any] = {}
    for each in found:
        for label, identity in each.identities.items():
            known = together.get(label, identity)
            columns = {**known["column_numbers"], **identity["column_numbers"]}
            labels = {**known["labels"], **identity["labels"]}
            together[label] = {**identity, "column_numbers": columns, "labels": labels}
    return together


def _require_held(archive: Archive, baseline: Baseline, at: int) -> None:
    """Raise ArchiveIncomplete unless every change that the model needs is archived.

    What went with a partition is in no change, and the model was to go on counting it.
    """
    model, part = baseline.model, archive.contents.at(at)
    if part is None or model.declaration not in [
        each.declaration for each in part.models if each.name == model.name
    ]:
        held = None
    elif (held := part.held.get(model.name)) is not None:
        held = max(held, part.emptied.get(model.name, 0))
    archive.require_held(baseline, at, held, _seed_it(model))


def write(
    target: TargetSession, archive: Archive, models: Sequence[Model], at: int
) -> tuple[list[Baseline], dict[int, int]]:
    """Write the groups of the models, as the target evaluates them.

    Returns their baselines, and what was written by attempt. Raises ArchiveIncomplete.
    """
    baselines = [_own_baseline(archive, model, at) for model in models]
    written: dict[int, int] = {}
    for baseline in baselines:
        model, incoming = baseline.model, target.incoming
        with evaluating.tables(target) as (moved, _):
            written |= queries.write(target, archive, baseline, at, moved, incoming, WENT)
        written |= queries.take_away(target, model, incoming, WENT)
        written |= _rejected(target, baseline, archive.truncates(baseline.snapshot_lsn, at))
    return baselines, written


def _own_baseline(archive: Archive, model: Model, at: int) -> Baseline:
    """Return the newest archived baseline of the model as it is declared now."""
    for baseline in reversed(archive.contents.baselines_of(model.name)):
        is_same = baseline.model.declaration == model.declaration
        if is_same and baseline.snapshot_lsn <= at:
            _require_held(archive, baseline, at)
            return baseline
    raise ArchiveIncomplete(
        f"the archive has no baseline of {model.name} as its query is now at or before"
        f" {lsn.show(at)}",
        _seed_it(model),
    )


def _rejected(
    target: TargetSession, baseline: Baseline, emptied: Collection[Table]
) -> dict[int, int]:
    """Write the rows that the baseline could not count, but for those of emptied tables."""
    model = baseline.model
    gone = {part.name for part in model.tables if part.table in emptied}
    rows = [each for each in baseline.rejections if each["part"] not in gone]
    return evaluating.insert(
        target,
        target.incoming,
        "model, part, dimensions, row_count, sums, reason, example",
        f"select {literal(model.name)}, part, '{{}}'::text[], row_count, '{{}}'::text[], reason,"
        f" example::text from jsonb_to_recordset({literal(json.dumps(rows))})"
        " as rejected (part text, row_count bigint, reason text, example jsonb)",
    )


def _seed_it(model: Model) -> str:
    return f"seed it from the source: `spark-submit spark/seed.py --model {model.name}`"
