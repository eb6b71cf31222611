"""What is wrong with a source that has standbys or was one, and the remedies. Pure.

From PostgreSQL 17 on, each standby that is set up for it copies a slot that was made with
`failover` (PostgreSQL documentation, "Replication Slot Synchronization").
"""

from __future__ import annotations

from collections.abc import Iterator

from loader.source.remedies import RELOAD, RENEW, STOP_FIRST
from loader.source.server import Server
from loader.source.state import State
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import (
    LoaderError,
    NotSetUp,
    SettingError,
    SourceBehind,
    Unhealthy,
)
from waltally.tables import literal

FAILOVER_SINCE = 170_000
"""The first version, as server_version_num has it, that copies slots to standbys."""

_NEW_SLOT = "waltally_standby"


def standbys_stream(state: State) -> Iterator[LoaderError]:
    """The loader must not wait for standbys that are away."""
    waits_for, streaming = state.server.standbys.waits_for, state.server.standbys.streaming
    away = [slot for slot in waits_for if slot not in streaming]
    if away and state.slot.state is not None and state.slot.state.has_copies:
        kept = ", ".join(literal(slot) for slot in waits_for if slot in streaming) or "''"
        yield Unhealthy(
            "The loader waits for standbys that do not stream from their slots: "
            f"{', '.join(away)} (synchronized_standby_slots)",
            "start them; or, if they are gone for good: alter system set "
            f"synchronized_standby_slots = {kept}; {RELOAD}",
        )


def slot_can_have_copies(state: State) -> Iterator[LoaderError]:
    """Standbys keep a slot only of a primary that knows of that."""
    server = state.server
    if state.failover and server.version < FAILOVER_SINCE:
        yield SettingError(
            "Standbys keep a slot only from PostgreSQL 17 on, and the source is "
            f"{server.version // 10_000}",
            "leave --failover and LOADER_FAILOVER out; after a failover: `loader setup --renew`"
            " and a new seed",
        )


def primary_note(state: State) -> list[str]:
    """Return what to change at the primary so that a failover needs no new seed."""
    standbys = state.server.standbys
    if standbys.waits_for or not state.failover:
        return []
    kept = standbys.slots or [_NEW_SLOT]
    make = f"select pg_create_physical_replication_slot({literal(_NEW_SLOT)}, true); "
    return [
        "synchronized_standby_slots is empty: the loader may get ahead of a standby, and a "
        "failover to it then needs a new seed. Name the standbys' slots, no backup's, at the "
        f"source: {'' if standbys.slots else make}alter system set synchronized_standby_slots = "
        f"{', '.join(map(literal, kept))}; {RELOAD}"
    ]


def slot_has_copies(state: State) -> Iterator[LoaderError]:
    """Where that was asked for, standbys have to keep the slot."""
    slot = state.slot.state
    if state.failover and slot is not None and not slot.has_copies:
        yield NotSetUp(f"The slot {state.slot.name} is not kept by standbys", STOP_FIRST)


def lost_commits(server: Server, record: SlotPosition) -> LoaderError | None:
    """Return why the log or a baseline may hold commits that the source does not have."""
    safe = record.safe
    also = f"{safe}, also changes that the source no longer has"
    reached, what = record.position_lsn, "the position of record"
    if (record.baseline_lsn or 0) > reached:
        reached, what = record.baseline_lsn or 0, "the newest baseline"
    shared = None
    if server.timeline is not None and record.timeline is not None:
        shared = server.timeline.shared_with(record.timeline, record.timeline_began_lsn)
    if shared == 0:
        return SourceBehind(
            f"The source's WAL does not continue timeline {record.timeline}, which was followed: "
            "it is a former primary, or was restored",
            f"name the present primary in LOADER_SOURCE_DSN; if this is it: {RENEW}",
            also,
        )
    if shared is not None and shared < reached:
        return SourceBehind(
            f"The source was promoted or restored at {lsn.show(shared)}, before {what} "
            f"{lsn.show(reached)}: commits between are lost",
            RENEW,
            also,
        )
    if server.wal_end >= record.position_lsn:
        return None
    return SourceBehind(
        f"The source's WAL ends at {lsn.show(server.wal_end)}, before the position of record "
        f"{lsn.show(record.position_lsn)}: it was restored or failed over with loss",
        RENEW,
        also,
    )
