"""`loader setup`: check, register the facts, and make what the loader needs."""

from __future__ import annotations

from contextlib import closing

from psycopg2 import extensions

from loader.preflight import slot_facts
from loader.preflight.findings import (
    declaration_findings,
    encoding_findings,
    other_slot_findings,
    record_findings,
    source_findings,
    zone_findings,
)
from loader.preflight.leaf_catalog import LeafCatalog
from loader.preflight.register_facts import Wanted, read_identities, register_facts, unchanged
from loader.preflight.slot_admin import (
    another_name,
    create_slot,
    drop_slot,
    foreign_slot_finding,
    make_origin,
)
from loader.preflight.slot_facts import SlotFacts
from loader.preflight.slot_record import note_leaves, note_tables, write_record
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

_TRIAL_SECONDS = 3


def check(settings: Settings, wanted: Wanted) -> list[LoaderError]:
    """Return what is wrong and change nothing. Raises LoaderError for a server that is down."""
    with closing(connect(settings.source, "source")) as source:
        found = declaration_findings(wanted.facts, wanted.logged)
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
            if facts.record is None:
                unready = NotSetUp(
                    f"The slot {settings.slot} is not set up yet", "run `loader setup`"
                )
                return found or [unready]
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


def set_up(settings: Settings, wanted: Wanted, timeout: int, renew: bool) -> list[str]:
    """Make staging schema and slot where they are missing, register; return what was done.

    `timeout` bounds, in seconds, the wait for transactions that are writing at the moment.
    `renew` replaces the slot and its row. Raises all findings together, NotOurs for a slot that
    setup did not make, and other LoaderErrors.
    """
    done: list[str] = []
    with closing(connect(settings.source, "source")) as source:
        found = declaration_findings(wanted.facts, wanted.logged)
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
                roots = LeafCatalog(source, wanted.tables, {}).roots
                with explained("target"), target, target.cursor() as cursor:
                    note_tables(cursor, settings, identities)
                    note_leaves(cursor, settings, roots)
                    done += register_facts(cursor, settings, wanted)
                clear_last_error(target, settings.schema, settings.slot)
                return done
            done += _begin_log(settings, wanted, facts, source, target, timeout, renew)
            if make_origin(source, settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
    return done


def _begin_log(
    settings: Settings,
    wanted: Wanted,
    facts: SlotFacts,
    source: extensions.connection,
    target: extensions.connection,
    timeout: int,
    renew: bool,
) -> list[str]:
    """Make the slot, anew with `renew`, or take over one that is there; begin its log."""
    state = facts.state
    hold_off_prunes(target, settings.schema)
    if renew and state is not None:
        if (other := foreign_slot_finding(facts)) is not None:
            raise other
        drop_slot(source, settings.slot)
        state = None
    # Read before the slot is made, so that a table renamed during the wait is noticed.
    identities = read_identities(source, wanted)
    roots = LeafCatalog(source, wanted.tables, {}).roots
    if state is None:
        start = create_slot(source, settings.slot, timeout, temporary=False)
        done = [f"made the slot {settings.slot} at {lsn.show(start)}"]
    else:
        start = _take_over(settings.slot, state, facts.server)
        done = [f"took over the slot {settings.slot} at {lsn.show(start)}"]
    # One transaction: nobody finds a slot without its facts, or a fact without its log.
    with explained("target"), target, target.cursor() as cursor:
        write_record(cursor, settings, facts.server, start)
        note_tables(cursor, settings, identities)
        note_leaves(cursor, settings, roots)
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
