"""`loader setup`: check, and make what the loader needs."""

from __future__ import annotations

from contextlib import closing

from psycopg2 import extensions, sql
from psycopg2.extras import Json

from loader.preflight import checks, slot_facts, standby_facts, table_identity
from loader.preflight.ask_source import ask_server, ask_table
from loader.preflight.slot_admin import (
    another_name,
    create_slot,
    drop_slot,
    foreign_slot_finding,
    make_origin,
)
from loader.preflight.slot_facts import SlotFacts
from loader.preflight.slot_state import RENEW, Server, SlotState
from loader.preflight.table_identity import TableIdentities
from loader.staging import migrate
from loader.staging.pruned import hold_off_prunes
from loader.staging.target_state import clear_last_error
from waltally import lsn
from waltally.database import connect, explained
from waltally.errors import (
    IsStandby,
    LoaderError,
    NotSetUp,
    SettingError,
    SlotCreationBlocked,
    SlotInUse,
    SlotMoved,
    combine,
)
from waltally.settings import Settings
from waltally.tables import COUNTED, Table, format_tables, registration_finding, tables_to_json

_TRIAL_SECONDS = 3


def findings(settings: Settings, source: extensions.connection) -> list[LoaderError]:
    """Return everything at the source that must be put right before a slot is made."""
    server = checks.server_findings(ask_server(source, settings.slot))
    found = server + table_findings(settings, source)
    synchronous = standby_facts.synchronous_finding(source)
    return found if synchronous is None else [*found, synchronous]


def table_findings(settings: Settings, source: extensions.connection) -> list[LoaderError]:
    """Return what is wrong with the source's tables."""
    found = []
    for number, table in enumerate(settings.tables):
        found += checks.table_findings(ask_table(source, table), number < COUNTED)
    return found


def check(settings: Settings) -> list[LoaderError]:
    """`setup --check`: return what is wrong, changing nothing. Raises if none can be asked."""
    with closing(connect(settings.source, "source")) as source:
        found = findings(settings, source)
        if not found and slot_facts.read_state(source, settings.slot) is None:
            try:
                create_slot(source, settings.slot, _TRIAL_SECONDS, temporary=True)
            except SlotCreationBlocked:
                pass  # the plugin was loaded before the wait, and nothing else was asked
            except LoaderError as error:
                found.append(error)
        with closing(_target(settings, found)) as target:
            found += encodings(source, target)
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
    """Connect to the target. Where that fails, raise what was found at the source with it."""
    try:
        return connect(settings.target, "target")
    except LoaderError as error:
        raise combine([*found, error]) from None


def encodings(source: extensions.connection, target: extensions.connection) -> list[LoaderError]:
    """Return why the target cannot hold the source's text; empty where it can."""
    names = [c.info.parameter_status("server_encoding") or "" for c in (source, target)]
    unfit = checks.encodings_fit(*names)
    return [unfit] if unfit else []


def record_findings(
    settings: Settings,
    source: extensions.connection,
    target: extensions.connection,
    facts: SlotFacts,
) -> list[LoaderError]:
    """Return why a slot that is set up cannot be followed with these settings."""
    found = (
        facts.finding or table_replaced(settings, source, target),
        _other_tables(settings, facts.tables),
    )
    return [finding for finding in found if finding is not None]


def _other_tables(settings: Settings, registered: tuple[Table, ...]) -> SettingError | None:
    """Return why the counted tables cannot be these; further ones may come and go at setup."""
    other = registration_finding(settings.counted, registered, settings.slot, logged=False)
    if other is not None:
        other.remedy += f"; or, to count {format_tables(settings.counted)} from now on: {RENEW}"
    return other


def table_replaced(
    settings: Settings, source: extensions.connection, target: extensions.connection
) -> LoaderError | None:
    """Return which table or column is no longer the one that was counted, None where all are."""
    counted = table_identity.read_counted(target, settings.schema, settings.slot)
    found = table_identity.read_current(source, settings.counted)
    return table_identity.replaced_finding(counted, found, settings.archive)


def set_up(settings: Settings, timeout: int, renew: bool) -> list[str]:
    """Make the staging schema and the slot where they are missing; return what was done.

    `timeout` bounds, in seconds, the wait for transactions that are writing at the moment.
    `renew` makes the slot and its row anew. Raises all findings together, NotOurs for a slot that
    setup did not make, and what setting up meets.
    """
    done: list[str] = []
    with closing(connect(settings.source, "source")) as source:
        found = findings(settings, source)
        with closing(_target(settings, found)) as target:
            found += encodings(source, target)
            if found:
                raise combine(found)
            done += [
                f"applied {name} in schema {settings.schema}"
                for name in migrate.upgrade(target, settings.schema)
            ]
            _wait_for_our_turn(target, settings)
            facts = slot_facts.read_facts(settings, source, target)
            state, server = facts.state, facts.server
            if facts.record is not None and not renew:
                if found := record_findings(settings, source, target, facts):
                    raise combine(found)
                _note_tables(
                    settings, table_identity.read_current(source, settings.counted), target
                )
                clear_last_error(target, settings.schema, settings.slot)
                return done + _register(settings, target, facts.record.tables)
            hold_off_prunes(target, settings.schema)
            if renew and state is not None:
                if (other := foreign_slot_finding(facts)) is not None:
                    raise other
                drop_slot(source, settings.slot)
                state = None
            # Before the slot is made: a table that is renamed while it waits for writers shows.
            noted = table_identity.read_current(source, settings.counted)
            if state is None:
                start = create_slot(source, settings.slot, timeout, temporary=False)
                done.append(f"made the slot {settings.slot} at {lsn.show(start)}")
            else:
                start = _take_over(settings.slot, state, server)
                done.append(f"took over the slot {settings.slot} at {lsn.show(start)}")
            _write_record(target, settings, server, start)
            clear_last_error(target, settings.schema, settings.slot)
            _note_tables(settings, noted, target, anew=True)
            done += _logged_only(settings)
            if make_origin(source, settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
    return done


def _take_over(name: str, state: SlotState, server: Server) -> int:
    """Return where the log of a slot that somebody else made begins: nothing of it was staged."""
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


def _wait_for_our_turn(target: extensions.connection, settings: Settings) -> None:
    """Let one setup of the slot at a time go on, until its session ends."""
    # Two sources may have slots of one name, and a schema each in this database.
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_lock(hashtext('waltally setup of a slot'), hashtext(%s))",
            (f"{settings.slot} {settings.schema}",),
        )


# A log that begins anew may begin earlier than the old one ended: another cluster, or one that was
# restored. What the old one held from there on must not meet the new changes.
_FORGET = (
    "delete from {}.change_log where slot_name = %(slot)s and commit_lsn >= %(start)s",
    "delete from {0}.historical_counts where slot_name in (select slot_name from "
    "{0}.historical_snapshot where slot_name = %(slot)s and snapshot_lsn >= %(start)s)",
    "delete from {}.historical_snapshot where slot_name = %(slot)s and snapshot_lsn >= %(start)s",
    # Below the log's start: the build refuses it until there is a new seed.
    "update {}.model_watermark set applied_lsn = '0/0' "
    "where slot_name = %(slot)s and applied_lsn >= %(start)s",
)


def _write_record(
    target: extensions.connection, settings: Settings, server: Server, start: int
) -> None:
    """Begin the log at `start`, in one transaction."""
    with explained("target"), target, target.cursor() as cursor:
        for statement in _FORGET:
            cursor.execute(
                sql.SQL(statement).format(sql.Identifier(settings.schema)),
                {"slot": settings.slot, "start": lsn.show(start)},
            )
        cursor.execute(
            sql.SQL(
                "insert into {}.slot_position (slot_name, system_identifier, source_database, "
                "start_lsn, position_lsn, registered_tables) values (%s, %s, %s, %s, %s, %s) "
                "on conflict (slot_name) do update set "
                "system_identifier = excluded.system_identifier, "
                "source_database = excluded.source_database, start_lsn = excluded.start_lsn, "
                "position_lsn = excluded.position_lsn, moved_at = now(), pruned_from_lsn = null, "
                "registered_tables = excluded.registered_tables"
            ).format(sql.Identifier(settings.schema)),
            (
                settings.slot,
                server.system_identifier,
                server.database,
                lsn.show(start),
                lsn.show(start),
                Json(tables_to_json(settings.tables)),
            ),
        )


def _note_tables(
    settings: Settings, found: TableIdentities, target: extensions.connection, *, anew: bool = False
) -> None:
    """Write down which tables are counted; unless `anew`, only where that is not known yet."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "update {}.slot_position set source_tables = %s "
                "where slot_name = %s and (%s or source_tables is null)"
            ).format(sql.Identifier(settings.schema)),
            (Json(found), settings.slot, anew),
        )


def _register(
    settings: Settings, target: extensions.connection, registered: tuple[Table, ...]
) -> list[str]:
    """Write down which tables are only logged now, where that has changed; return what to say."""
    if set(registered) == set(settings.tables):
        return []
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "update {}.slot_position set registered_tables = %s where slot_name = %s"
            ).format(sql.Identifier(settings.schema)),
            (Json(tables_to_json(settings.tables)), settings.slot),
        )
    return [
        f"registered {format_tables(settings.tables)}; a loader that runs must be started again",
        *_logged_only(settings),
    ]


def _logged_only(settings: Settings) -> list[str]:
    return [
        f"{table} is logged and not counted: only the first two tables are"
        for table in settings.tables[COUNTED:]
    ]
