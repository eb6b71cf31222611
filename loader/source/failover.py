"""What a slot needs so that standbys keep a copy of it and the loader survives a failover. Pure.

PostgreSQL 17 and later: a slot made with `failover` is copied by each standby that is set up for
it.
Source: PostgreSQL documentation, "Replication Slot Synchronization".
"""

from __future__ import annotations

from loader.source.checks import keeping_findings
from loader.source.remedies import RELOAD, RESTART_STANDBY, physical_slot
from loader.source.server_facts import ServerFacts
from loader.source.slot_state import SlotState
from waltally.errors import IsStandby, LoaderError, SettingError
from waltally.tables import literal

FAILOVER_SINCE = 170_000
"""The first version, as server_version_num has it, that copies slots to standbys."""

_SLOT_OF_STANDBY = "waltally_standby"


def unable(facts: ServerFacts) -> list[LoaderError]:
    """Return why the server cannot have a slot that its standbys keep."""
    if facts.version < FAILOVER_SINCE:
        return [
            SettingError(
                "Standbys keep a slot only from PostgreSQL 17 on, and the source is "
                f"{facts.version // 10_000}",
                "leave --failover and LOADER_FAILOVER out; after a failover: `loader setup --renew`"
                " and a new seed",
            )
        ]
    if facts.in_recovery:
        return [
            SettingError(
                "The source is a standby: only a slot of the primary is kept by its standbys",
                "leave --failover and LOADER_FAILOVER out, or name the primary in "
                "LOADER_SOURCE_DSN; `loader setup --check --failover` checks this standby",
            )
        ]
    return []


def primary_note(facts: ServerFacts) -> list[str]:
    """Return what is missing at the primary so that a failover needs no new seed."""
    if facts.waits_for:
        return []
    names = facts.standby_slots or [_SLOT_OF_STANDBY]
    make = "" if facts.standby_slots else f"{physical_slot(_SLOT_OF_STANDBY)} "
    return [
        "synchronized_standby_slots is empty: the loader may get ahead of a standby, and a "
        "failover to it then needs a new seed. Name the standbys' slots, no backup's, at the "
        f"source: {make}alter system set synchronized_standby_slots = "
        f"{', '.join(map(literal, names))}; {RELOAD}"
    ]


def waiting_note(facts: ServerFacts) -> tuple[str, str] | None:
    """Return why the loader stands still for standbys that are away, and the remedy."""
    away = [each for each in facts.waits_for if each not in facts.streaming]
    if not away:
        return None
    left = [each for each in facts.waits_for if each in facts.streaming]
    kept = ", ".join(map(literal, left)) or "''"
    return (
        "The loader waits for standbys that do not stream from their slots: "
        f"{', '.join(away)} (synchronized_standby_slots)",
        "start them; or, if they are gone for good: alter system set synchronized_standby_slots = "
        f"{kept}; {RELOAD}",
    )


def standby_findings(
    facts: ServerFacts, name: str, slot: SlotState | None, database: str
) -> list[LoaderError]:
    """Return what keeps a standby from having a copy of the slot that goes on after a promotion."""
    if facts.version < FAILOVER_SINCE:
        return unable(facts)
    found = keeping_findings(facts)

    def add(is_wrong: bool, what: str, remedy: str) -> None:
        if is_wrong:
            found.append(IsStandby(f"The standby keeps no copy of the slot: {what}", remedy))

    add(
        facts.wal_level != "logical",
        f"wal_level is {facts.wal_level}",
        f"on the standby: alter system set wal_level = 'logical'; {RESTART_STANDBY}",
    )
    add(
        not facts.copies_slots,
        "sync_replication_slots is off",
        f"on the standby: alter system set sync_replication_slots = on; {RELOAD}",
    )
    add(
        facts.names_database is False,
        "primary_conninfo names no database",
        # The string may hold a password, so psql puts the statement together.
        "on the standby, in psql: select format('alter system set primary_conninfo = %L', "
        f"current_setting('primary_conninfo') || ' dbname={database}') \\gexec \\\\ {RELOAD}",
    )
    if not found:
        add(
            slot is None or not slot.is_copy,
            f"{name} is not there yet" if slot is None else f"{name} was made on the standby",
            "on the primary: `loader setup --failover`; then keep `loader run` running: the "
            "standby copies the slot once it moves"
            if slot is None
            else f"on the standby: select pg_drop_replication_slot({literal(name)});",
        )
    if not found and slot is not None:
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
    return found
