"""Makes the slot or takes one over, and begins its log."""

from __future__ import annotations

from loader.findings.slot import foreign_slot_finding
from loader.setup.declared import Declared
from loader.source.server import Server
from loader.source.slot import SlotInfo
from loader.source.slot_admin import (
    create_slot,
    drop_slot,
    left_slot,
    require_no_loader,
)
from loader.source.standbys import keep_on_standbys, write_source
from loader.staging import registration
from waltally import lsn
from waltally.database import Connection, Target
from waltally.settings import Settings


def begin_log(
    settings: Settings,
    declared: Declared,
    slot: SlotInfo,
    source: Connection,
    target: Target,
    timeout: int,
    renew: bool,
) -> list[str]:
    """Make the slot, again with `renew`, or take over one that is there; begin its log."""
    state, copied = slot.state, declared.failover
    left = []
    if renew:
        if (other := foreign_slot_finding(slot, declared.source_is_gone)) is not None:
            raise other
        require_no_loader(target)
        if state is not None:
            drop_slot(source, settings.slot)
            copied = copied or state.has_copies
            state = None
        elif slot.record is not None and slot.is_of_another_source:
            left.append(left_slot(slot.record))
    if state is None:
        start = create_slot(source, settings.slot, timeout, temporary=False, copied=copied)
        done = [f"made the slot {settings.slot} at {lsn.show(start)}"]
        done += ["standbys may keep a copy of the slot"] if copied else []
    else:
        assert state.confirmed_flush_lsn is not None, "a rule has looked"
        start = state.confirmed_flush_lsn
        done = [f"took over the slot {settings.slot} at {lsn.show(start)}"]
        done += keep_on_standbys(settings, state) if copied else []
    # It writes to the log before the record, so a prune, which locks the log, ends before or sees
    # the record.
    with target.transaction():
        write_record(target, slot.server, start)
    return done + left


# A new log may begin before the old one ended: on another cluster, or on one that was restored.
# Old rows at or after the new start are deleted so that they cannot mix with new ones.
_DELETE_FROM_START = (
    "delete from {}.logged_table where slot_name = %(slot)s",
    "delete from {}.change_log where slot_name = %(slot)s and commit_lsn >= %(start)s",
    *(
        f"delete from {{0}}.{table} where (slot_name, model_name) in (select slot_name, "
        "model_name from {0}.baseline where slot_name = %(slot)s and snapshot_lsn >= %(start)s)"
        for table in ("baseline_rejection", "baseline_group", "baseline")
    ),
    # The same cluster sends these deletes again. Positions of another cluster mean nothing here.
    "delete from {0}.ignored_delete using {0}.slot_position as log "
    "where ignored_delete.slot_name = %(slot)s and log.slot_name = %(slot)s "
    "and commit_lsn >= %(start)s and log.system_identifier = %(system)s",
    "update {}.ignored_delete set commit_lsn = %(start)s::pg_lsn - 1 "
    "where slot_name = %(slot)s and commit_lsn >= %(start)s",
    # 0/0 is before the log's start: a build is refused until there is a new baseline.
    "update {}.model_watermark set applied_lsn = '0/0' "
    "where slot_name = %(slot)s and applied_lsn >= %(start)s",
    # A reader of somebody's own finds that the log starts later than where it is.
    "update {}.reader_position set applied_lsn = '0/0' "
    "where slot_name = %(slot)s and applied_lsn >= %(start)s",
)
_WRITE = """
insert into {}.slot_position (
    slot_name, system_identifier, source_database, start_lsn, position_lsn
)
values (%s, %s, %s, %s, %s)
on conflict (slot_name) do update set
    system_identifier = excluded.system_identifier,
    source_database = excluded.source_database,
    start_lsn = excluded.start_lsn,
    position_lsn = excluded.position_lsn,
    moved_at = now()
"""


def write_record(target: Target, server: Server, start: int) -> None:
    """Begin the log at `start`, in the open transaction."""
    registration.keep_applies_out(target)
    for statement in _DELETE_FROM_START:
        values = {
            "slot": target.slot,
            "start": lsn.show(start),
            "system": server.system_identifier,
        }
        target.ask_staging(statement, values)
    target.ask_staging(
        _WRITE,
        (
            target.slot,
            server.system_identifier,
            server.database,
            lsn.show(start),
            lsn.show(start),
        ),
    )
    write_source(target, server)
