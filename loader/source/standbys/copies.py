"""What a standby needs to keep a slot, its own or a copy of the primary's. Pure.

From PostgreSQL 17 on, each standby that is set up for it copies a slot that was made with
`failover` (PostgreSQL documentation, "Replication Slot Synchronization").
"""

from __future__ import annotations

from loader.source.remedies import (
    RELOAD,
    RESTART_STANDBY,
    physical_slot,
    setting_remedy,
)
from loader.source.server import ServerInfo
from loader.source.slot import SlotState
from waltally import server_errors
from waltally.errors import (
    IsStandby,
    LoaderError,
    SettingError,
    SlotCreationBlocked,
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


def too_old(server: ServerInfo) -> list[LoaderError]:
    """Before PostgreSQL 16 a standby has no logical slot."""
    is_able = not server.in_recovery or server.version >= STANDBYS_DECODE_SINCE
    return [] if is_able else [server_errors.standby()]


def creation_blocked(failure: str) -> SlotCreationBlocked:
    """Return why a standby has made no slot in time."""
    return SlotCreationBlocked(
        f"{failure}: a standby waits until its primary logs which transactions run",
        f"run `loader setup` again, and meanwhile on the primary: {SNAPSHOT}",
    )


def keeping_findings(server: ServerInfo) -> list[LoaderError]:
    """Return why a standby could not keep a slot that is made on it."""
    return [finding for check in (standby_feedback, standby_slot) if (finding := check(server))]


def standby_feedback(server: ServerInfo) -> LoaderError | None:
    """Without feedback, vacuum on the primary removes catalog rows that a standby's slot needs."""
    if not server.in_recovery or server.standbys.sends_feedback:
        return None
    return IsStandby(
        "The standby does not tell its primary which rows the slot needs, and would lose the slot: "
        "hot_standby_feedback is off",
        f"on the standby: {setting_remedy(server.provider, 'hot_standby_feedback', 'on')}",
    )


def standby_slot(server: ServerInfo) -> LoaderError | None:
    """Without a slot of the primary, the feedback ends whenever the standby is away."""
    if not server.in_recovery or server.standbys.primary_slot:
        return None
    return IsStandby(
        "The standby streams without a slot of its primary, so the primary forgets which rows are "
        "needed whenever the standby is away: primary_slot_name is not set",
        f"on the primary: {physical_slot('waltally_standby')} then on the standby: "
        + setting_remedy(server.provider, "primary_slot_name", "'waltally_standby'"),
    )


def unable(server: ServerInfo) -> list[LoaderError]:
    """Return why the server cannot have a slot that its standbys keep."""
    if server.version < FAILOVER_SINCE:
        return [
            SettingError(
                "Standbys keep a slot only from PostgreSQL 17 on, and the source is "
                f"{server.version // 10_000}",
                "leave --failover and LOADER_FAILOVER out; after a failover: `loader setup --renew`"
                " and a new seed",
            )
        ]
    if server.in_recovery:
        return [
            SettingError(
                "The source is a standby: only a slot of the primary is kept by its standbys",
                "leave --failover and LOADER_FAILOVER out, or name the primary in "
                "LOADER_SOURCE_DSN; `loader setup --check --failover` checks this standby",
            )
        ]
    return []


def primary_note(server: ServerInfo) -> list[str]:
    """Return what to change at the primary so that a failover needs no new seed."""
    if server.standbys.waits_for:
        return []
    names = server.standbys.slots or [_NEW_SLOT]
    make = "" if server.standbys.slots else f"{physical_slot(_NEW_SLOT)} "
    return [
        "synchronized_standby_slots is empty: the loader may get ahead of a standby, and a "
        "failover to it then needs a new seed. Name the standbys' slots, no backup's, at the "
        f"source: {make}alter system set synchronized_standby_slots = "
        f"{', '.join(map(literal, names))}; {RELOAD}"
    ]


def waiting_finding(server: ServerInfo) -> Unhealthy | None:
    """Return which standbys the loader waits for although they do not stream."""
    away = [slot for slot in server.standbys.waits_for if slot not in server.standbys.streaming]
    if not away:
        return None
    left = [slot for slot in server.standbys.waits_for if slot in server.standbys.streaming]
    kept = ", ".join(map(literal, left)) or "''"
    return Unhealthy(
        "The loader waits for standbys that do not stream from their slots: "
        f"{', '.join(away)} (synchronized_standby_slots)",
        "start them; or, if they are gone for good: alter system set synchronized_standby_slots = "
        f"{kept}; {RELOAD}",
    )


def standby_findings(
    server: ServerInfo, name: str, slot: SlotState | None, database: str
) -> list[LoaderError]:
    """Return why a standby has no copy of the slot that can be followed after a promotion."""
    if server.version < FAILOVER_SINCE:
        return unable(server)
    findings = keeping_findings(server)

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
