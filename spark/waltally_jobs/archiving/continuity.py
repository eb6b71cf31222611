"""Whether the change log goes on where the archive ends, and the row that `loader prune` reads."""

from __future__ import annotations

from dataclasses import dataclass

from loader.staging.records import SlotPosition
from waltally import locks, lsn
from waltally.errors import SourceBehind
from waltally.settings import SlotSettings
from waltally_jobs.archiving.manifests import Contents, Origin
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AnotherArchive, ArchiveIncomplete

CHANGES_PER_SLICE = 3_200_000
"""One or two minutes of work; a killed run loses at most one slice."""


@dataclass(frozen=True)
class ArchiveSettings(SlotSettings):
    """Where a slot's change log goes.

    `path` is of any file system that pyarrow reaches. With `is_delta` the changes are a Delta table
    too.
    """

    path: str
    slice_changes: int = CHANGES_PER_SLICE
    is_delta: bool = False


_NEW_PLACE = "archive to a new place: give another --to"


def acquire_archive_lock(target: TargetSession) -> None:
    """Keep other archives of the slot away while the session lives. Raises AnotherArchive."""
    if not locks.acquire(target, "archive", target.schema, target.slot):
        raise AnotherArchive(
            f"another archive of slot {target.slot} is running", "let it end, then run it again"
        )


def continues(slot: SlotPosition, contents: Contents) -> bool:
    """Return whether the archive can be of this change log."""
    return contents.origins <= {Origin.of(slot)} and contents.to_lsn <= slot.position_lsn


def check(slot: SlotPosition, contents: Contents, recorded_lsn: int | None, location: str) -> None:
    """Raise unless the log goes on where the archive ends.

    `recorded_lsn` is the position from which on the archive held the log when it was last written.
    """
    contents.require_origin(slot, location, _NEW_PLACE)
    if not contents.slices:
        if recorded_lsn is not None and recorded_lsn < slot.start_lsn:
            raise ArchiveIncomplete(
                f"{location} held the changes from {lsn.show(recorded_lsn)} on and is empty"
                f" now; the change log starts at {lsn.show(slot.start_lsn)}",
                f"bring the files back from a copy, or {_NEW_PLACE}",
            )
    elif contents.to_lsn > slot.position_lsn:
        raise SourceBehind(
            f"{location} holds changes up to {lsn.show(contents.to_lsn)}, the change log only up to"
            f" {lsn.show(slot.position_lsn)}: the target was restored, or the slot made again",
            _NEW_PLACE,
        )
    elif contents.to_lsn < slot.start_lsn:
        raise ArchiveIncomplete(
            f"{location} ends at {lsn.show(contents.to_lsn)} and the change log starts at"
            f" {lsn.show(slot.start_lsn)}: the changes between are in neither",
            _NEW_PLACE,
        )


def recorded_lsn(target: TargetSession, location: str) -> int | None:
    """Return the recorded start of the archive at the location, None where none is recorded."""
    rows = target.ask(
        f"select from_lsn::text from {target.table('archive_position')}"
        " where slot_name = %s and location = %s",
        (target.slot, location),
    )
    return lsn.parse(rows[0][0]) if rows else None


def held(target: TargetSession) -> tuple[dict[str, int], dict[str, int]]:
    """Return by model from which position on the log holds every change that it needs.

    And before which position rows of a table whose deletes it ignores went with a partition.
    """
    rows = target.ask(
        f"""
        select
            declared_name,
            {target.table("held_since")}(slot_name, needed)::text,
            (
                select max(emptied_lsn)::text
                from {target.table("logged_table")} as logged
                inner join jsonb_array_elements(declaration -> 'sources') as source
                    on table_schema || '.' || table_name = source ->> 'table'
                where logged.slot_name = model.slot_name and (source ->> 'keeps_deleted')::boolean
            )
        from {target.table("registered_model")} as model
        where slot_name = %s
        """,
        (target.slot,),
    )
    return (
        {name: lsn.parse(at) for name, at, _ in rows if at is not None},
        {name: lsn.parse(at) for name, _, at in rows if at is not None},
    )


def record(target: TargetSession, location: str, contents: Contents) -> None:
    """Record for `loader prune` what the archive holds, also where that has become less."""
    positions = {
        "slot": target.slot,
        "location": location,
        "begin": lsn.show(contents.from_lsn),
        "end": lsn.show(contents.to_lsn),
    }
    table = target.table("archive_position")
    if not contents.slices:
        target.ask(
            f"update {table} set archived_lsn = from_lsn"
            " where slot_name = %(slot)s and location = %(location)s",
            positions,
        )
        return
    target.ask(
        f"insert into {table} as stored (slot_name, location, from_lsn, archived_lsn)"
        " values (%(slot)s, %(location)s, %(begin)s, %(end)s)"
        " on conflict (slot_name, location) do update set from_lsn = excluded.from_lsn,"
        " archived_lsn = excluded.archived_lsn, archived_at = now()"
        " where (stored.from_lsn, stored.archived_lsn)"
        " is distinct from (excluded.from_lsn, excluded.archived_lsn)",
        positions,
    )
