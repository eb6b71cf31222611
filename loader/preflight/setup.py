"""`loader setup`: check, register the facts, and make what the loader needs."""

from __future__ import annotations

import logging
from contextlib import closing

from psycopg2 import extensions

from loader.preflight import failover as failover_slots
from loader.preflight import slot_facts
from loader.preflight.ask_source import ask_server
from loader.preflight.checks import keeping_findings
from loader.preflight.findings import (
    declaration_findings,
    encoding_findings,
    other_slot_findings,
    record_findings,
    source_findings,
    zone_findings,
)
from loader.preflight.register_facts import Wanted, read_identities, register_facts, unchanged
from loader.preflight.remedies import RELOAD
from loader.preflight.slot_admin import (
    STANDBY_SNAPSHOT,
    another_name,
    create_slot,
    drop_slot,
    enable_failover,
    foreign_slot_finding,
    make_origin,
)
from loader.preflight.slot_facts import SlotFacts
from loader.preflight.slot_record import note_tables, write_record
from loader.preflight.slot_state import Server, SlotState
from loader.staging import migrate, registration
from loader.staging.pruned import hold_off_prunes
from loader.staging.target_state import clear_last_error
from waltally import lsn
from waltally.database import connect, explained
from waltally.errors import (
    IsStandby,
    LoaderError,
    NotSetUp,
    SlotCreationBlocked,
    SlotInUse,
    SlotMoved,
    combine,
)
from waltally.settings import Settings

log = logging.getLogger("loader")

_TRIAL_SECONDS = 3
_CHECK_STANDBYS = "check each standby with: loader setup --check --failover --source STANDBY"


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
        found += declaration_findings(wanted.facts, wanted.logged)
        found += source_findings(settings, wanted.facts, wanted.logged, source)
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
                    f"The slot {settings.slot} is not set up yet", "run `loader setup`"
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
            if changes := registration.difference(registered, wanted.facts, wanted.logged):
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
        found += declaration_findings(wanted.facts, wanted.logged)
        found += source_findings(settings, wanted.facts, wanted.logged, source)
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
            if facts.record is not None and not renew:
                registered = registration.read_registration(target, settings.schema, settings.slot)
                counted = unchanged(registered, wanted)
                if found := record_findings(settings, source, target, facts, counted):
                    raise combine(found)
                identities = read_identities(source, wanted)
                with explained("target"), target, target.cursor() as cursor:
                    note_tables(cursor, settings, identities)
                    done += register_facts(cursor, settings, wanted)
                if failover:
                    done += _keep_on_standbys(settings, facts.state)
                clear_last_error(target, settings.schema, settings.slot)
                return done + _notes(source, failover)
            if found := keeping_findings(ask_server(source, settings.slot)):
                raise combine(found)
            done += _begin_log(settings, wanted, facts, source, target, timeout, renew, failover)
            if make_origin(_writable(facts.server, source, target), settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
            done += _notes(source, failover)
    return done


def _writable(
    server: Server, source: extensions.connection, target: extensions.connection
) -> extensions.connection:
    """Return the connection that writes what the source's cluster has: a standby takes nothing."""
    if server.in_recovery and slot_facts.read_server(target).is_same_cluster(server):
        return target
    return source


def _keep_on_standbys(settings: Settings, state: SlotState | None) -> list[str]:
    """Let standbys keep a slot that they do not keep yet; return what to say."""
    if state is None or state.is_failover:
        return []
    enable_failover(settings.source, settings.slot)
    return [f"standbys may keep a copy of the slot {settings.slot} from now on; {_CHECK_STANDBYS}"]


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


def _begin_log(
    settings: Settings,
    wanted: Wanted,
    facts: SlotFacts,
    source: extensions.connection,
    target: extensions.connection,
    timeout: int,
    renew: bool,
    failover: bool,
) -> list[str]:
    """Make the slot, anew with `renew`, or take over one that is there; begin its log."""
    state = facts.state
    hold_off_prunes(target, settings.schema)
    if renew and state is not None:
        if (other := foreign_slot_finding(facts)) is not None:
            raise other
        drop_slot(source, settings.slot)
        failover = failover or state.is_failover
        state = None
    # Read before the slot is made, so that a table renamed during the wait is noticed.
    identities = read_identities(source, wanted)
    if state is None:
        if facts.server.in_recovery:
            log.warning(
                "The standby makes the slot once its primary has logged which transactions run. At "
                "once, if you run on the primary: %s",
                STANDBY_SNAPSHOT,
            )
        start = create_slot(source, settings.slot, timeout, temporary=False, failover=failover)
        done = [f"made the slot {settings.slot} at {lsn.show(start)}"]
        if failover:
            done.append(f"standbys may keep a copy of the slot; {_CHECK_STANDBYS}")
    else:
        start = _take_over(settings.slot, state, facts.server)
        done = [f"took over the slot {settings.slot} at {lsn.show(start)}"]
        done += _keep_on_standbys(settings, state) if failover else []
    # One transaction: nobody finds a slot without its facts, or a fact without its log.
    with explained("target"), target, target.cursor() as cursor:
        write_record(cursor, settings, facts.server, start)
        note_tables(cursor, settings, identities)
        done += register_facts(cursor, settings, wanted)
    clear_last_error(target, settings.schema, settings.slot)
    return done


def _take_over(name: str, state: SlotState, server: Server) -> int:
    """Return where the log of a slot begins that somebody else made.

    Raises SlotMoved where it cannot be followed, SlotInUse where somebody follows it.
    """
    if state.plugin != "wal2json" or state.database != server.database:
        what = f"of plugin {state.plugin} in database {state.database}"
        raise SlotMoved(
            f"A slot {name} exists already, {what if state.plugin else 'a physical one'}",
            f"export LOADER_SLOT={another_name(name)}; loader setup",
        )
    if state.active_pid is not None:
        raise SlotInUse(
            f"A slot {name} exists already, and pid {state.active_pid} follows it",
            f"stop it; or, if it is another loader's: export LOADER_SLOT={another_name(name)}; "
            "loader setup",
        )
    if state.confirmed_flush_lsn is None or state.wal_status == "lost":
        raise SlotMoved(
            f"A slot {name} exists already and has lost its WAL",
            f"select pg_drop_replication_slot('{name}'); -- then `loader setup`",
        )
    return state.confirmed_flush_lsn


def _acquire_setup_lock(target: extensions.connection, settings: Settings) -> None:
    """Wait until no other setup in the schema runs; hold the lock until the session ends.

    Two slots at once could each find that no other one feeds a fact.
    """
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_lock(hashtext('waltally setup of a slot'), hashtext(%s))",
            (settings.schema,),
        )
