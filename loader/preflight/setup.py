"""`loader setup`: check, and make what the loader needs."""

from __future__ import annotations

from contextlib import closing

from psycopg2 import extensions

from loader.preflight import slot_facts, table_identity
from loader.preflight.findings import encoding_findings, record_findings, source_findings
from loader.preflight.slot_admin import (
    another_name,
    create_slot,
    drop_slot,
    foreign_slot_finding,
    make_origin,
)
from loader.preflight.slot_record import logged_only, note_tables, register, write_record
from loader.preflight.slot_state import Server, SlotState
from loader.staging import migrate
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


def check(settings: Settings) -> list[LoaderError]:
    """Return what is wrong and change nothing. Raises LoaderError for a server that is down."""
    with closing(connect(settings.source, "source")) as source:
        found = source_findings(settings, source)
        if not found and slot_facts.read_state(source, settings.slot) is None:
            try:
                create_slot(source, settings.slot, _TRIAL_SECONDS, temporary=True)
            except SlotCreationBlocked:
                pass  # only the wait was too long: the plugin had been loaded by then
            except LoaderError as error:
                found.append(error)
        with closing(_target(settings, found)) as target:
            found += encoding_findings(source, target)
            if any(isinstance(each, IsStandby) for each in found):
                return found
            facts = slot_facts.read_facts(settings, source, target)
            if facts.record is None:
                unready = NotSetUp(
                    f"The slot {settings.slot} is not set up yet", "run `loader setup`"
                )
                return found or [unready]
            return found + record_findings(settings, source, target, facts)


def _target(settings: Settings, found: list[LoaderError]) -> extensions.connection:
    """Connect to the target. Where that fails, raise it together with the source's findings."""
    try:
        return connect(settings.target, "target")
    except LoaderError as error:
        raise combine([*found, error]) from None


def set_up(settings: Settings, timeout: int, renew: bool) -> list[str]:
    """Make the staging schema and the slot where they are missing; return what was done.

    `timeout` bounds, in seconds, the wait for transactions that are writing at the moment.
    `renew` replaces the slot and its row. Raises all findings together, NotOurs for a slot that
    setup did not make, and other LoaderErrors.
    """
    done: list[str] = []
    with closing(connect(settings.source, "source")) as source:
        found = source_findings(settings, source)
        with closing(_target(settings, found)) as target:
            found += encoding_findings(source, target)
            if found:
                raise combine(found)
            done += [
                f"applied {name} in schema {settings.schema}"
                for name in migrate.upgrade(target, settings.schema)
            ]
            _acquire_setup_lock(target, settings)
            facts = slot_facts.read_facts(settings, source, target)
            state, server = facts.state, facts.server
            if facts.record is not None and not renew:
                if found := record_findings(settings, source, target, facts):
                    raise combine(found)
                note_tables(settings, table_identity.read_current(source, settings.counted), target)
                clear_last_error(target, settings.schema, settings.slot)
                return done + register(settings, target, facts.record.tables)
            hold_off_prunes(target, settings.schema)
            if renew and state is not None:
                if (other := foreign_slot_finding(facts)) is not None:
                    raise other
                drop_slot(source, settings.slot)
                state = None
            # Read before the slot is made, so that a table renamed during the wait is noticed.
            noted = table_identity.read_current(source, settings.counted)
            if state is None:
                start = create_slot(source, settings.slot, timeout, temporary=False)
                done.append(f"made the slot {settings.slot} at {lsn.show(start)}")
            else:
                start = _take_over(settings.slot, state, server)
                done.append(f"took over the slot {settings.slot} at {lsn.show(start)}")
            write_record(target, settings, server, start)
            clear_last_error(target, settings.schema, settings.slot)
            note_tables(settings, noted, target, anew=True)
            done += logged_only(settings)
            if make_origin(source, settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
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
    """Wait until no other setup of the slot runs; hold the lock until the session ends."""
    # Two sources may have slots of the same name, each with its own schema in this database.
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_lock(hashtext('waltally setup of a slot'), hashtext(%s))",
            (f"{settings.slot} {settings.schema}",),
        )
