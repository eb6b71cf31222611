"""Makes the slot, or takes one over, and begins its log: facts, tables and position at once."""

from __future__ import annotations

import logging

from psycopg2 import extensions

from loader.preflight import slot_facts
from loader.preflight.register_facts import Wanted, read_tables, register_facts
from loader.preflight.slot_admin import (
    STANDBY_SNAPSHOT,
    another_name,
    create_slot,
    drop_slot,
    enable_failover,
    foreign_slot_finding,
)
from loader.preflight.slot_facts import SlotFacts
from loader.preflight.slot_record import write_record
from loader.preflight.slot_state import Server, SlotState, standby_finding
from loader.staging.pruned import hold_off_prunes
from loader.staging.target_state import clear_last_error
from waltally import lsn
from waltally.database import explained
from waltally.errors import SlotInUse, SlotMoved
from waltally.settings import Settings

log = logging.getLogger("loader")

_CHECK_STANDBYS = "check each standby with: loader setup --check --failover --source STANDBY"


def begin_log(
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
    if state is not None and state.is_copy:
        raise standby_finding(settings.slot, state)
    hold_off_prunes(target, settings.schema)
    if renew and state is not None:
        if (other := foreign_slot_finding(facts)) is not None:
            raise other
        drop_slot(source, settings.slot)
        failover = failover or state.is_failover
        state = None
    # Read before the slot is made, so that a table renamed during the wait is noticed.
    tables = read_tables(source, settings, wanted)
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
        done += keep_on_standbys(settings, state) if failover else []
    # One transaction: nobody finds a slot without its facts, or a fact without its log.
    with explained("target"), target, target.cursor() as cursor:
        write_record(cursor, settings, facts.server, start)
        done += register_facts(cursor, settings, wanted, tables)
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


def keep_on_standbys(settings: Settings, state: SlotState | None) -> list[str]:
    """Let standbys keep a slot that they do not keep yet; return what to say. Raises SlotInUse."""
    if state is None or state.is_failover:
        return []
    if state.active_pid is not None:
        # The server would wait until nobody follows it, without a limit.
        raise SlotInUse(
            f"The slot {settings.slot} is in use by pid {state.active_pid}, and --failover cannot "
            "change it meanwhile",
            "stop the loader, run `loader setup --failover`, start the loader",
        )
    enable_failover(settings.source, settings.slot)
    return [f"standbys may keep a copy of the slot {settings.slot} from now on; {_CHECK_STANDBYS}"]


def writable(
    server: Server, source: extensions.connection, target: extensions.connection
) -> extensions.connection:
    """Return the connection that writes what the source's cluster has: a standby takes nothing."""
    if server.in_recovery and slot_facts.read_server(target).is_same_cluster(server):
        return target
    return source
