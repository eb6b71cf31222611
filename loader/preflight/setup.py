"""`loader setup`: check, register the facts, and make what the loader needs."""

from __future__ import annotations

from contextlib import closing

from psycopg2 import extensions

from loader.preflight import failover as failover_slots
from loader.preflight import slot_facts
from loader.preflight.ask_source import ask_server
from loader.preflight.begin_log import begin_log, keep_on_standbys, writable
from loader.preflight.checks import keeping_findings
from loader.preflight.ddl_notes import missing_note
from loader.preflight.findings import (
    declaration_findings,
    encoding_findings,
    other_slot_findings,
    record_findings,
    source_findings,
    zone_findings,
)
from loader.preflight.register_facts import (
    Wanted,
    foreign_findings,
    read_tables,
    register_facts,
    unchanged,
)
from loader.preflight.remedies import RELOAD
from loader.preflight.slot_admin import (
    create_slot,
    make_origin,
)
from loader.staging import migrate, registration
from loader.staging.target_state import clear_last_error
from waltally.database import connect, explained
from waltally.errors import (
    IsStandby,
    LoaderError,
    NotSetUp,
    SlotCreationBlocked,
    combine,
)
from waltally.settings import Settings

_TRIAL_SECONDS = 3


def check(settings: Settings, wanted: Wanted, failover: bool = False) -> list[LoaderError]:
    """Return what is wrong and change nothing. Raises LoaderError for a server that is down.

    With `failover` and a standby as the source: what keeps it from taking the slot over.
    """
    with closing(connect(settings.source, "source")) as source:
        copies = failover_slots.ask(source)
        if failover and copies.in_recovery:
            state = slot_facts.read_state(source, settings.slot)
            return failover_slots.standby_findings(copies, settings.slot, state, source.info.dbname)
        found = failover_slots.unable(copies) if failover else []
        found += declaration_findings(wanted.facts)
        found += source_findings(settings, wanted.facts, source)
        if not found and slot_facts.read_state(source, settings.slot) is None:
            try:
                create_slot(source, settings.slot, _TRIAL_SECONDS, temporary=True)
            except SlotCreationBlocked:
                pass  # only the wait was too long: the plugin had been loaded by then
            except LoaderError as error:
                found.append(error)
        with closing(_target(settings, found)) as target:
            found += encoding_findings(source, target)
            found += zone_findings(wanted.facts, target)
            found += _other_slots(settings, wanted, target)
            if any(isinstance(each, IsStandby) for each in found):
                return found
            facts = slot_facts.read_facts(settings, source, target)
            if not isinstance(facts.finding, IsStandby):
                found += keeping_findings(ask_server(source, settings.slot))
            if facts.record is None:
                unready = NotSetUp(
                    f"Server and tables are fit; the slot {settings.slot} is not set up yet",
                    "run `loader setup`",
                )
                return found or [unready]
            if failover and facts.state is not None and not facts.state.is_failover:
                found.append(
                    NotSetUp(
                        f"The slot {settings.slot} is not kept by standbys",
                        "stop the loader, run `loader setup --failover`, start the loader",
                    )
                )
            registered = registration.read_registration(target, settings.schema, settings.slot)
            found += record_findings(settings, source, target, facts, unchanged(registered, wanted))
            if foreign := foreign_findings(target, settings, wanted):
                found += foreign
            elif changes := registration.difference(registered, wanted.facts):
                found.append(
                    NotSetUp(
                        f"What is registered differs from what is declared: {changes}",
                        "run `loader setup`",
                    )
                )
            return found


def _target(settings: Settings, found: list[LoaderError]) -> extensions.connection:
    """Connect to the target. Where that fails, raise it together with the source's findings."""
    try:
        return connect(settings.target, "target")
    except LoaderError as error:
        raise combine([*found, error]) from None


def _other_slots(
    settings: Settings, wanted: Wanted, target: extensions.connection
) -> list[LoaderError]:
    if not migrate.version(target, settings.schema):
        return []
    return other_slot_findings(settings, wanted.facts, target)


def set_up(
    settings: Settings, wanted: Wanted, timeout: int, renew: bool, failover: bool = False
) -> list[str]:
    """Make staging schema and slot where they are missing, register; return what was done.

    `timeout` bounds, in seconds, the wait for transactions that are writing at the moment.
    `renew` replaces the slot and its row, `failover` lets standbys keep the slot. Raises all
    findings together, NotOurs for a slot that setup did not make, and other LoaderErrors.
    """
    done: list[str] = []
    with closing(connect(settings.source, "source")) as source:
        found = failover_slots.unable(failover_slots.ask(source)) if failover else []
        found += declaration_findings(wanted.facts)
        found += source_findings(settings, wanted.facts, source)
        with closing(_target(settings, found)) as target:
            found += encoding_findings(source, target)
            found += zone_findings(wanted.facts, target)
            found += _other_slots(settings, wanted, target)
            if found:
                raise combine(found)
            done += [
                f"applied {name} in schema {settings.schema}"
                for name in migrate.upgrade(target, settings.schema)
            ]
            _acquire_setup_lock(target, settings)
            # Again, now that no other setup can come between.
            if found := _other_slots(settings, wanted, target):
                raise combine(found)
            facts = slot_facts.read_facts(settings, source, target)
            if facts.record is not None and (found := foreign_findings(target, settings, wanted)):
                raise combine(found)
            if facts.record is not None and not renew:
                registered = registration.read_registration(target, settings.schema, settings.slot)
                counted = unchanged(registered, wanted)
                if found := record_findings(settings, source, target, facts, counted):
                    raise combine(found)
                tables = read_tables(source, settings, wanted)
                with explained("target"), target, target.cursor() as cursor:
                    done += register_facts(cursor, settings, wanted, tables)
                if failover:
                    done += keep_on_standbys(settings, facts.state)
                clear_last_error(target, settings.schema, settings.slot)
                return done + _notes(source, failover)
            if found := keeping_findings(ask_server(source, settings.slot)):
                raise combine(found)
            done += begin_log(settings, wanted, facts, source, target, timeout, renew, failover)
            if make_origin(writable(facts.server, source, target), settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
            done += _notes(source, failover)
    return done


def ddl_note(settings: Settings) -> list[str]:
    """Return how the source can be made to tell of DDL, where it does not. Raises LoaderError."""
    with closing(connect(settings.source, "source")) as source:

        def ask(query: str) -> list[tuple[object, ...]]:
            with explained("source"), source, source.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchall()

        note = missing_note(ask, source.info.dbname, source.info.user)
    return [] if note is None else [note]


def _notes(source: extensions.connection, failover: bool) -> list[str]:
    """Return what may make the slot end later, with the SQL that prevents it."""
    notes = failover_slots.primary_note(failover_slots.ask(source)) if failover else []
    timeout = slot_facts.read_idle_timeout(source)
    if timeout is not None:
        notes.append(
            f"the source gives the slot up once nobody has followed it for {timeout} "
            "(idle_replication_slot_timeout). To keep it: "
            f"alter system set idle_replication_slot_timeout = 0; {RELOAD}"
        )
    return notes


def _acquire_setup_lock(target: extensions.connection, settings: Settings) -> None:
    """Wait until no other setup in the schema runs; hold the lock until the session ends.

    Two slots at once could each find that no other one feeds a fact.
    """
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_lock(hashtext('waltally setup of a slot'), hashtext(%s))",
            (settings.schema,),
        )
