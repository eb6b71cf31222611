"""What a slot needs so that standbys keep a copy of it and the loader goes on after a failover.

PostgreSQL 17 and later: a slot made with `failover` is copied by each standby that is set up for
it. The facts are asked in plain SQL, the judging is pure.
Source: PostgreSQL documentation, "Replication Slot Synchronization".
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions

from loader.preflight.remedies import RELOAD, RESTART_STANDBY
from loader.preflight.slot_state import SlotState
from waltally.database import explained
from waltally.errors import IsStandby, LoaderError, SettingError
from waltally.tables import literal

FAILOVER_SINCE = 170_000
"""The first version, as server_version_num has it, that copies slots to standbys."""

_SLOT_OF_STANDBY = "waltally_standby"

_FACTS = """
select
    current_setting('server_version_num')::int,
    current_setting('server_version'),
    pg_is_in_recovery(),
    current_setting('wal_level'),
    current_setting('hot_standby_feedback')::boolean,
    current_setting('primary_slot_name') <> '',
    -- No row for a role that may not read it.
    (select setting ~ 'dbname *=' from pg_settings where name = 'primary_conninfo'),
    current_setting('sync_replication_slots', true)::boolean,
    array(
        select trim(both ' "' from name)
        from regexp_split_to_table(current_setting('synchronized_standby_slots', true), ',') as name
        where trim(name) <> ''
    ),
    array(
        select slot_name::text from pg_replication_slots
        where slot_type = 'physical' and not temporary
        order by slot_name
    ),
    array(
        select slot_name::text from pg_replication_slots
        where slot_type = 'physical' and active
    )
"""


@dataclass(frozen=True)
class FailoverFacts:
    """What a server says of copies of slots; of a primary or of a standby."""

    version: int
    version_name: str
    in_recovery: bool
    wal_level: str
    sends_feedback: bool
    has_primary_slot: bool
    names_database: bool | None
    """Whether primary_conninfo names one; None where this role may not read it."""
    copies_slots: bool | None
    """sync_replication_slots; None before PostgreSQL 17."""
    waits_for: list[str]
    """synchronized_standby_slots: the standbys that the loader must not get ahead of."""
    standby_slots: list[str]
    """The physical slots there are; also of backups."""
    streaming: list[str]
    """Those that somebody streams from."""


def ask(source: extensions.connection) -> FailoverFacts:
    """Return the server's facts. Raises LoaderError."""
    with explained("source"), source, source.cursor() as cursor:
        cursor.execute(_FACTS)
        row = cursor.fetchone()
    assert row is not None
    return FailoverFacts(*row)


def unable(facts: FailoverFacts) -> list[LoaderError]:
    """Return why the server cannot have a slot that its standbys keep."""
    if facts.version < FAILOVER_SINCE:
        return [
            SettingError(
                "Standbys keep a slot only from PostgreSQL 17 on, and the source is "
                f"{facts.version_name}",
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


def primary_note(facts: FailoverFacts) -> list[str]:
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


def waiting_note(facts: FailoverFacts) -> tuple[str, str] | None:
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


def physical_slot(name: str) -> str:
    """Return the SQL that makes a slot for a standby, holding WAL from now on."""
    return f"select pg_create_physical_replication_slot({literal(name)}, true);"


def standby_findings(
    facts: FailoverFacts, name: str, slot: SlotState | None, database: str
) -> list[LoaderError]:
    """Return what keeps a standby from having a copy of the slot that goes on after a promotion."""
    if facts.version < FAILOVER_SINCE:
        return unable(facts)
    found: list[LoaderError] = []

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
        not facts.sends_feedback,
        "hot_standby_feedback is off",
        f"on the standby: alter system set hot_standby_feedback = on; {RELOAD}",
    )
    add(
        not facts.has_primary_slot,
        "primary_slot_name is not set",
        f"on the primary: {physical_slot(_SLOT_OF_STANDBY)} then on the standby: alter system set "
        f"primary_slot_name = {literal(_SLOT_OF_STANDBY)}; {RELOAD}",
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
