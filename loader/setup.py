"""`loader setup` and `loader teardown`: check, make, and take away what the loader needs."""

from __future__ import annotations

from contextlib import closing

from psycopg2 import extensions, sql
from psycopg2.extras import Json

from loader import (
    checks,
    last_error,
    lsn,
    slot,
    source_tables,
    staging,
    standby_facts,
    standing,
)
from loader.database import connect, explained
from loader.errors import LoaderError, NotSetUp, SlotCreationBlocked, SlotMoved
from loader.pruned import hold_off_prunes
from loader.settings import Settings
from loader.slot_admin import create_slot, drop_origin, drop_slot, make_origin
from loader.source_facts import ask_server, ask_table
from loader.tables import COUNTED
from loader.verdict import Server, SlotState

_TRIAL_SECONDS = 3


def findings(settings: Settings, source: extensions.connection) -> list[LoaderError]:
    """Return everything at the source that must be put right before a slot is made."""
    server = checks.server_findings(ask_server(source, settings.slot))
    found = server + table_findings(settings, source)
    synchronous = standby_facts.ask(source)
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
        if found := findings(settings, source):
            return found
        if slot.read_state_sql(source, settings.slot) is None:
            try:
                create_slot(source, settings.slot, _TRIAL_SECONDS, temporary=True)
            except SlotCreationBlocked:
                pass  # the plugin was loaded before the wait, and nothing else was asked
            except LoaderError as error:
                return [error]
        with closing(connect(settings.target, "target")) as target:
            if (unfit := encodings(source, target)) is not None:
                return [unfit]
            stands = standing.read(settings, source, target)
            if stands.record is None:
                return [
                    NotSetUp(f"The slot {settings.slot} is not set up yet", "run `loader setup`")
                ]
            complaint = stands.complaint or table_replaced(settings, source, target)
    return [complaint] if complaint else []


def encodings(source: extensions.connection, target: extensions.connection) -> LoaderError | None:
    """Return why the target cannot hold the source's text, None where it can."""
    names = [c.info.parameter_status("server_encoding") or "" for c in (source, target)]
    return checks.encodings_fit(*names)


def table_replaced(
    settings: Settings, source: extensions.connection, target: extensions.connection
) -> LoaderError | None:
    """Return which table or column is no longer the one that was counted, None where all are."""
    counted = source_tables.counted(target, settings.schema, settings.slot)
    return source_tables.replaced(counted, source_tables.present(source, settings.counted))


def set_up(settings: Settings, timeout: int, renew: bool) -> list[str]:
    """Make the staging schema and the slot where they are missing; return what was done.

    `timeout` bounds, in seconds, the wait for transactions that are writing at the moment.
    `renew` makes the slot and its row anew. Raises the first finding, and what setting up meets.
    """
    done: list[str] = []
    with closing(connect(settings.source, "source")) as source:
        if found := findings(settings, source):
            raise found[0]
        with closing(connect(settings.target, "target")) as target:
            if (unfit := encodings(source, target)) is not None:
                raise unfit
            done += [
                f"applied {name} in schema {settings.schema}"
                for name in staging.upgrade(target, settings.schema)
            ]
            _wait_for_our_turn(target, settings.slot)
            stands = standing.read(settings, source, target)
            state, server = stands.state, stands.server
            if renew or stands.record is None:
                hold_off_prunes(target, settings.schema)
            if renew and state is not None:
                drop_slot(source, settings.slot)
                state = None
            if stands.record is not None and not renew:
                complaint = stands.complaint or table_replaced(settings, source, target)
                if complaint is not None:
                    raise complaint
                _note_tables(settings, source, target, anew=False)
                last_error.clear(target, settings.schema, settings.slot)
                return done
            if state is None:
                start = create_slot(source, settings.slot, timeout, temporary=False)
                done.append(f"made the slot {settings.slot} at {lsn.show(start)}")
            else:
                start = _take_over(settings.slot, state, server)
                done.append(f"took over the slot {settings.slot} at {lsn.show(start)}")
            _write_record(target, settings, server, start)
            _note_tables(settings, source, target, anew=True)
            last_error.clear(target, settings.schema, settings.slot)
            if make_origin(source, settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
    return done


def tear_down(settings: Settings, purge: bool) -> list[str]:
    """Drop the slot, with `purge` the staging schema too; return what was done.

    Raises SlotInUse while a loader follows the slot.
    """
    done = []
    with closing(connect(settings.source, "source")) as source:
        if slot.read_state_sql(source, settings.slot) is not None:
            drop_slot(source, settings.slot)
            done.append(f"dropped the slot {settings.slot}")
        if drop_origin(source, settings.slot):
            done.append("dropped the replication origin")
    with closing(connect(settings.target, "target")) as target:
        if staging.version(target, settings.schema):
            with explained("target"), target, target.cursor() as cursor:
                schema = sql.Identifier(settings.schema)
                if purge:
                    cursor.execute(sql.SQL("drop schema {} cascade").format(schema))
                    done.append(f"dropped the schema {settings.schema}")
                else:
                    cursor.execute(
                        sql.SQL("delete from {}.slot_position where slot_name = %s").format(schema),
                        (settings.slot,),
                    )
    return done


def _take_over(name: str, state: SlotState, server: Server) -> int:
    """Return where the log of a slot that somebody else made begins: nothing of it was staged."""
    if state.plugin != "wal2json" or state.database != server.database:
        raise SlotMoved(
            f"A slot {name} exists already, of plugin {state.plugin} in database {state.database}",
            "drop it, or choose another name with LOADER_SLOT",
        )
    if state.confirmed_lsn is None or state.wal_status == "lost":
        raise SlotMoved(
            f"A slot {name} exists already and has lost its WAL",
            f"select pg_drop_replication_slot('{name}'); then `loader setup`",
        )
    return state.confirmed_lsn


def _wait_for_our_turn(target: extensions.connection, name: str) -> None:
    """Let one setup of the slot at a time go on, until its session ends."""
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            "select pg_advisory_lock(hashtext('waltally setup of a slot'), hashtext(%s))", (name,)
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
                Json([[table.schema, table.name] for table in settings.tables]),
            ),
        )


def _note_tables(
    settings: Settings,
    source: extensions.connection,
    target: extensions.connection,
    *,
    anew: bool,
) -> None:
    """Write down which tables are counted; unless `anew`, only where that is not known yet."""
    found = source_tables.present(source, settings.counted)
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            sql.SQL(
                "update {}.slot_position set source_tables = %s "
                "where slot_name = %s and (%s or source_tables is null)"
            ).format(sql.Identifier(settings.schema)),
            (Json(found), settings.slot, anew),
        )
