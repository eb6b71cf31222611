"""What is wrong with a source that is a standby or has some, and the remedies. Pure.

From PostgreSQL 17 on, each standby that is set up for it copies a slot that was made with
`failover` (PostgreSQL documentation, "Replication Slot Synchronization").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loader.source.remedies import (
    RELOAD,
    RENEW,
    RESTART_PRIMARY,
    RESTART_STANDBY,
    physical_slot,
    setting_remedy,
)
from loader.source.server import Server, ServerInfo
from loader.source.slot import SlotInfo
from loader.source.standbys import names
from loader.source.state import State
from loader.staging.records import SlotPosition
from waltally import lsn, server_errors
from waltally.errors import (
    Interrupted,
    IsStandby,
    LoaderError,
    NotSetUp,
    SettingError,
    SlotCreationBlocked,
    SourceBehind,
    Unhealthy,
)
from waltally.tables import literal

STANDBYS_DECODE_SINCE = 160_000
"""The first version, as server_version_num has it, whose standbys have logical slots."""

SNAPSHOT = "select pg_log_standby_snapshot(); -- as a superuser"
"""Has a primary log its running transactions at once; otherwise it does so within minutes."""

FAILOVER_SINCE = 170_000
"""The first version, as server_version_num has it, that copies slots to standbys."""


_NEW_SLOT = "waltally_standby"

STOP_FIRST = "stop the loader, run `loader setup --failover`, start the loader"


def too_old(in_recovery: bool, version: int) -> list[LoaderError]:
    """Before PostgreSQL 16 a standby has no logical slot."""
    is_able = not in_recovery or version >= STANDBYS_DECODE_SINCE
    return [] if is_able else [server_errors.standby()]


def creation_blocked(failure: str) -> SlotCreationBlocked:
    """Return why a standby has made no slot in time."""
    return SlotCreationBlocked(
        f"{failure}: a standby waits until its primary logs which transactions run",
        f"run `loader setup` again, and meanwhile on the primary: {SNAPSHOT}",
    )


def commits_do_not_wait(state: State) -> Iterator[LoaderError]:
    """The application's commits must not wait for the loader."""
    yield from filter(None, [names.finding(state.server.standbys)])


def standby_keeps_slot(state: State) -> Iterable[LoaderError]:
    """A standby that is decoded has to keep what the slot needs."""
    # Other rules report a copy of the primary's slot and a standby that is too old.
    if too_old(state.server.in_recovery, state.server.version) or _is_copy_of_primary(state.slot):
        return ()
    return _keeping(state.server)


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
    if server.version < FAILOVER_SINCE:
        yield SettingError(
            "Standbys keep a slot only from PostgreSQL 17 on, and the source is "
            f"{server.version // 10_000}",
            "leave --failover and LOADER_FAILOVER out; after a failover: `loader setup --renew`"
            " and a new seed",
        )
    elif server.in_recovery:
        yield SettingError(
            "The source is a standby: only a slot of the primary is kept by its standbys",
            "leave --failover and LOADER_FAILOVER out, or name the primary in "
            "LOADER_SOURCE_DSN; `loader setup --check --failover` checks this standby",
        )


def primary_note(state: State) -> list[str]:
    """Return what to change at the primary so that a failover needs no new seed."""
    standbys = state.server.standbys
    if standbys.waits_for:
        return []
    kept = standbys.slots or [_NEW_SLOT]
    make = "" if standbys.slots else f"{physical_slot(_NEW_SLOT)} "
    return [
        "synchronized_standby_slots is empty: the loader may get ahead of a standby, and a "
        "failover to it then needs a new seed. Name the standbys' slots, no backup's, at the "
        f"source: {make}alter system set synchronized_standby_slots = "
        f"{', '.join(map(literal, kept))}; {RELOAD}"
    ]


def standby_has_copy(state: State, database: str) -> list[LoaderError]:
    """A standby has to have a copy of the slot that can be followed after a promotion."""
    server, name, slot = state.server, state.slot.name, state.slot.state
    if server.version < FAILOVER_SINCE:
        return list(slot_can_have_copies(state))
    findings = list(_keeping(server))

    def add(is_wrong: bool, what: str, remedy: str) -> None:
        if is_wrong:
            findings.append(IsStandby(f"The standby keeps no copy of the slot: {what}", remedy))

    add(
        server.wal_level != "logical",
        f"wal_level is {server.wal_level}",
        f"on the standby: alter system set wal_level = 'logical'; {RESTART_STANDBY}",
    )
    add(
        not server.standbys.copies_slots,
        "sync_replication_slots is off",
        f"on the standby: alter system set sync_replication_slots = on; {RELOAD}",
    )
    add(
        server.standbys.names_database is False,
        "primary_conninfo names no database",
        # The string may contain a password, so psql makes the statement.
        "on the standby, in psql: select format('alter system set primary_conninfo = %L', "
        f"current_setting('primary_conninfo') || ' dbname={database}') \\gexec \\\\ {RELOAD}",
    )
    if not findings:
        add(
            slot is None or not slot.is_copy,
            f"{name} is not there yet" if slot is None else f"{name} was made on the standby",
            "on the primary: `loader setup --failover`; then keep `loader run` running: the "
            "standby copies the slot once it moves"
            if slot is None
            else f"on the standby: select pg_drop_replication_slot({literal(name)});",
        )
    if not findings and slot is not None:
        add(
            slot.is_temporary,
            f"its copy of {name} is not complete yet",
            "keep `loader run` running: the copy is complete once the slot has moved",
        )
        add(
            slot.wal_status == "lost",
            f"its copy of {name} is lost ({slot.invalidation_reason})",
            "nothing, if the slot on the primary is not lost: the standby copies it again",
        )
    return findings


def slot_has_copies(state: State) -> Iterator[LoaderError]:
    """Where that was asked for, standbys have to keep the slot."""
    slot = state.slot.state
    if slot is not None and not slot.has_copies:
        yield NotSetUp(f"The slot {state.slot.name} is not kept by standbys", STOP_FIRST)


def slot_is_no_copy(slot: SlotInfo) -> Iterator[LoaderError]:
    """Nobody can follow a copy of the primary's slot."""
    if slot.state is not None and slot.state.is_copy:
        yield no_slot_here(slot.name, has_copy=True)


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


def _keeping(server: ServerInfo) -> Iterator[LoaderError]:
    if not server.in_recovery:
        return
    if not server.standbys.sends_feedback:
        # Vacuum on the primary removes catalog rows that the slot needs.
        yield IsStandby(
            "The standby does not tell its primary which rows the slot needs, and would lose the "
            "slot: hot_standby_feedback is off",
            f"on the standby: {setting_remedy(server.provider, 'hot_standby_feedback', 'on')}",
        )
    if not server.standbys.primary_slot:
        yield IsStandby(
            "The standby streams without a slot of its primary, so the primary forgets which rows "
            "are needed whenever the standby is away: primary_slot_name is not set",
            f"on the primary: {physical_slot(_NEW_SLOT)} then on the standby: "
            + setting_remedy(server.provider, "primary_slot_name", literal(_NEW_SLOT)),
        )


REASONS = {
    "rows_removed": (
        "rows of the catalog that it needed were removed by vacuum on the primary (rows_removed)",
        "on the standby: alter system set hot_standby_feedback = on; and see that "
        "primary_slot_name names a slot of the primary; then ",
    ),
    "wal_level_insufficient": (
        "the primary ran with a wal_level below logical (wal_level_insufficient)",
        f"on the primary: alter system set wal_level = 'logical'; {RESTART_PRIMARY}; then ",
    ),
    "conflict": (
        "it conflicted with what the standby replayed (conflicting)",
        "on the standby: alter system set hot_standby_feedback = on; on the primary: wal_level = "
        "logical; then ",
    ),
}
"""By a standby's reason for giving a slot up: a sentence, and the steps before a new slot."""


def no_slot_here(name: str, has_copy: bool, safe: str = "") -> IsStandby:
    """Return the error for a standby that lacks the slot, or has only a copy of it."""
    if not has_copy:
        return IsStandby(
            f"The source is a standby that does not have the slot {name}",
            "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is "
            f"promoted; to decode on this standby from now on: {RENEW}",
            safe,
        )
    return IsStandby(
        f"The source is a standby, and its slot {name} is a copy of the primary's",
        "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is promoted: "
        "the copy then goes on",
        safe,
    )


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
    if server.in_recovery:
        return Interrupted(
            f"The standby has replayed up to {lsn.show(server.wal_end)}, the position of record is "
            f"{lsn.show(record.position_lsn)}",
            "nothing, if the standby still replays; the loader waits for it",
            safe,
        )
    return SourceBehind(
        f"The source's WAL ends at {lsn.show(server.wal_end)}, before the position of record "
        f"{lsn.show(record.position_lsn)}: it was restored or failed over with loss",
        RENEW,
        also,
    )
