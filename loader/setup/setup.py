"""`loader setup`: check, register the facts, and make what the loader needs."""

from __future__ import annotations

from contextlib import closing

from loader.setup.begin_log import begin_log, keep_on_standbys
from loader.setup.register_facts import (
    Wanted,
    foreign_findings,
    read_tables,
    register_facts,
    unchanged,
)
from loader.source import failover as failover_slots
from loader.source import slot_facts
from loader.source.ask_source import ask_server
from loader.source.checks import keeping_findings
from loader.source.ddl_notes import missing_note
from loader.source.findings import (
    declaration_findings,
    encoding_findings,
    other_slot_findings,
    record_findings,
    source_findings,
    zone_findings,
)
from loader.source.remedies import setting_remedy
from loader.source.slot_admin import (
    create_slot,
    make_origin,
)
from loader.staging import migrate, registration
from loader.staging.target_state import clear_last_error
from waltally import locks
from waltally.database import Connection, connect
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
        copies = ask_server(source, settings.slot)
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
            found += other_slot_findings(settings, wanted.facts, target)
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


def _target(settings: Settings, found: list[LoaderError]) -> Connection:
    """Connect to the target. Where that fails, raise it together with the source's findings."""
    try:
        return connect(settings.target, "target")
    except LoaderError as error:
        raise combine([*found, error]) from None


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
        found = failover_slots.unable(ask_server(source, settings.slot)) if failover else []
        found += declaration_findings(wanted.facts)
        found += source_findings(settings, wanted.facts, source)
        with closing(_target(settings, found)) as target:
            found += encoding_findings(source, target)
            found += zone_findings(wanted.facts, target)
            found += other_slot_findings(settings, wanted.facts, target)
            if found:
                raise combine(found)
            done += [
                f"applied {name} in schema {settings.schema}"
                for name in migrate.upgrade(target, settings.schema)
            ]
            # Two slots at once could each find that no other one feeds a fact. So we look again.
            target.ask("select pg_advisory_lock(%s)", (locks.key("registration", settings.schema),))
            if found := other_slot_findings(settings, wanted.facts, target):
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
                with target.transaction():
                    done += register_facts(target, settings, wanted, tables)
                if failover:
                    done += keep_on_standbys(settings, facts.state)
                clear_last_error(target, settings.schema, settings.slot)
                return done + _notes(source, failover)
            if found := keeping_findings(ask_server(source, settings.slot)):
                raise combine(found)
            done += begin_log(settings, wanted, facts, source, target, timeout, renew, failover)
            if make_origin(slot_facts.writable(facts.server, source, target), settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
            done += _notes(source, failover)
    return done


def ddl_note(settings: Settings) -> list[str]:
    """Return how the source can be made to tell of DDL, where it does not. Raises LoaderError."""
    with closing(connect(settings.source, "source")) as source:
        note = missing_note(source)
    return [] if note is None else [note]


def _notes(source: Connection, failover: bool) -> list[str]:
    """Return what may make the slot end later, with the SQL that prevents it."""
    server = ask_server(source, "")
    notes = failover_slots.primary_note(server) if failover else []
    timeout = slot_facts.read_idle_timeout(source)
    if timeout is not None:
        keep = setting_remedy(server.provider, "idle_replication_slot_timeout", "0")
        notes.append(
            f"the source gives the slot up once nobody has followed it for {timeout} "
            f"(idle_replication_slot_timeout). To keep it: {keep}"
        )
    return notes
