"""Whether the slot goes on where the log ends, and is ours. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loader.findings.standbys import lost_commits
from loader.source.remedies import RELOAD, RENEW
from loader.source.slot import SlotInfo, another_name, of_another_source
from loader.source.state import State
from waltally import lsn
from waltally.errors import LoaderError, NotOurs, SlotInUse, SlotLost, SlotMoved


def slot_goes_on(state: State) -> Iterator[LoaderError]:
    """The slot has to have every change since the position of record."""
    yield from filter(None, [why_not_followable(state.slot)])


_REASONS = {
    "wal_removed": ("the WAL that it needed was removed (max_slot_wal_keep_size)", ""),
    "idle_timeout": (
        "nobody followed it for longer than idle_replication_slot_timeout (idle_timeout)",
        f"alter system set idle_replication_slot_timeout = 0; {RELOAD} -- on the source; then ",
    ),
}
"""By the server's reason for giving a slot up: a sentence, and the steps before a new slot."""


def why_not_followable(info: SlotInfo) -> LoaderError | None:
    """Return why a slot cannot be followed from its record; None where it can, or there is none.

    The server sends only changes from the slot's confirmed position on. Where that is beyond the
    record, the changes between the two are lost.
    """
    name, slot, record, server = info.name, info.state, info.record, info.server
    if record is None:
        return None
    safe = record.safe
    if (finding := of_another_source(server, record)) is not None:
        return finding
    if slot is None:
        return SlotLost(
            f"The slot {name} no longer exists",
            RENEW,
            f"{safe}, what came after it may be lost",
        )
    if slot.plugin != "wal2json" or slot.database != record.source_database:
        return SlotMoved(
            f"The slot {name} is now of plugin {slot.plugin} in database {slot.database}: "
            "somebody made it again",
            f"ask who made it; once it is not needed and gone, {RENEW}",
            safe,
        )
    if slot.wal_status == "lost" or slot.confirmed_flush_lsn is None:
        # Older servers give no reason: they give up a slot only because of its WAL.
        reason = slot.invalidation_reason or "wal_removed"
        what, remedy = _REASONS.get(reason, (f"the server says {reason}", ""))
        return SlotLost(
            f"The server has given up the slot {name}: {what}",
            f"{remedy}{RENEW}",
            f"{safe}, what came after it is lost",
        )
    if slot.confirmed_flush_lsn > record.position_lsn:
        return SlotMoved(
            f"The slot {name} is at {lsn.show(slot.confirmed_flush_lsn)}, beyond the position of "
            "record: it was moved or made again, or the target was restored",
            RENEW,
            f"{safe}, changes between are lost",
        )
    return lost_commits(server, record)


def slot_is_free(state: State) -> Iterator[LoaderError]:
    """A slot that is there already may be another target's, which would lose its changes."""
    slot, server = state.slot.state, state.slot.server
    # Of a copy, setup says more.
    if slot is None or state.slot.record is not None:
        return
    name = state.slot.name
    another = f"export LOADER_SLOT={another_name(name, server.database)}; loader setup"
    if slot.plugin != "wal2json" or slot.database != server.database:
        what = f"of plugin {slot.plugin} in database {slot.database}"
        yield SlotMoved(
            f"A slot {name} exists already, {what if slot.plugin else 'a physical one'}", another
        )
    elif slot.active_pid is not None:
        yield SlotInUse(
            f"A slot {name} exists already, and pid {slot.active_pid} follows it",
            f"{another}; or stop who follows it, if nobody needs that any more",
        )
    elif slot.confirmed_flush_lsn is None or slot.wal_status == "lost":
        yield SlotMoved(
            f"A slot {name} exists already and has lost its WAL",
            another,
        )
    elif not state.take_slot:
        yield NotOurs(
            f"A slot {name} exists already, and schema {state.schema} of this target has no "
            "record of it: another target may have the record, and would lose what is confirmed "
            "from here",
            f"{another}; or, if no other target follows it, because a migration made it or a setup "
            "was interrupted: `loader setup --take-slot`",
        )


def foreign_slot_finding(slot: SlotInfo, source_is_gone: bool = False) -> LoaderError | None:
    """Return why slot and record must not be dropped; None where `loader setup` made both.

    A slot is ours if it is a slot of wal2json in this database, and this schema has a row for it
    with the same cluster and database. Without a slot here, the row has to be of this database all
    the same, because its slot is there; unless that source is gone for good.
    """
    state, server, record = slot.state, slot.server, slot.record
    name = slot.name
    if record is not None and slot.is_of_another_source:
        if source_is_gone:
            return foreign_slot_finding(replace(slot, record=None))
        return NotOurs(
            f"The slot {name} was set up in database {record.source_database} of cluster "
            f"{record.system_identifier}, and the source is {server.database} of "
            f"{server.system_identifier}, so nothing is dropped",
            "name the right source in LOADER_SOURCE_DSN; if that one is gone for good, add "
            "--source-is-gone",
        )
    if state is None:
        return None
    if state.plugin is None:
        what = "is a physical slot, which replays or archives the WAL"
    elif state.plugin != "wal2json" or state.database != server.database:
        what = f"is of plugin {state.plugin} in database {state.database}"
    elif record is None:
        what = "has no row in slot_position: `loader setup` did not make it"
    else:
        return None
    return NotOurs(
        f"The slot {name} {what}, so it is not dropped",
        f"choose another name: export LOADER_SLOT={another_name(name, server.database)}",
    )
