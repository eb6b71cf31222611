"""Rules over a source that is a standby or has some. Pure.

Each function yields an error with its remedy for what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loader.source.slot import SlotInfo
from loader.source.standbys import copies, lost, names
from loader.source.state import State
from waltally.errors import LoaderError, NotSetUp

STREAM_FIRST = "stop the loader, run `loader setup --failover`, start the loader"


def commits_do_not_wait(state: State) -> Iterator[LoaderError]:
    """The application's commits must not wait for the loader."""
    yield from filter(None, [names.finding(state.server.standbys)])


def standby_keeps_slot(state: State) -> Iterable[LoaderError]:
    """A standby that is decoded has to keep what the slot needs."""
    # Other rules report a copy of the primary's slot and a standby that is too old.
    if copies.too_old(state.server) or _is_copy_of_primary(state.slot):
        return ()
    return copies.keeping_findings(state.server)


def standbys_stream(state: State) -> Iterator[LoaderError]:
    """The loader must not wait for standbys that are away."""
    slot = state.slot.state
    if slot is not None and slot.has_copies:
        yield from filter(None, [copies.waiting_finding(state.server)])


def slot_can_have_copies(state: State) -> Iterable[LoaderError]:
    """Standbys keep a slot only of a primary that knows of that."""
    return copies.unable(state.server)


def slot_has_copies(state: State) -> Iterator[LoaderError]:
    """Where that was asked for, standbys have to keep the slot."""
    slot = state.slot.state
    if slot is not None and not slot.has_copies:
        yield NotSetUp(f"The slot {state.slot.name} is not kept by standbys", STREAM_FIRST)


def standby_has_copy(state: State, database: str) -> Iterable[LoaderError]:
    """A standby has to have a copy of the slot that can be followed after a promotion."""
    return copies.standby_findings(state.server, state.slot.name, state.slot.state, database)


def primary_note(state: State) -> Iterable[str]:
    """Return what to change at the primary so that a failover needs no new seed."""
    return copies.primary_note(state.server)


def slot_is_no_copy(slot: SlotInfo) -> Iterator[LoaderError]:
    """Nobody can follow a copy of the primary's slot."""
    if slot.state is not None and slot.state.is_copy:
        yield lost.no_slot_here(slot.name, has_copy=True)


def is_left_elsewhere(slot: SlotInfo) -> bool:
    """Return whether another server has the record's slot: of another source, or of the cluster."""
    if slot.record is None or slot.is_of_another_source:
        return slot.is_of_another_source
    is_here = slot.state is not None and not slot.state.is_copy
    return not is_here and slot.record.on_standby != slot.server.in_recovery


def places(slot: SlotInfo) -> str:
    """Return where the slot is, beside the primary; empty where it is nowhere else."""
    is_kept = slot.state is not None and slot.state.has_copies
    words = {"on a standby": slot.server.in_recovery, "kept by standbys": is_kept}
    return ", ".join(word for word, holds in words.items() if holds)


def _is_copy_of_primary(slot: SlotInfo) -> bool:
    """Return whether the server is a standby that lacks the slot, or has only a copy of it."""
    is_elsewhere = slot.state is None or slot.state.is_copy
    return slot.server.in_recovery and slot.record is not None and is_elsewhere
