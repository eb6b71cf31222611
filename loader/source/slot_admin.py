"""Reads, makes and drops the slot and its replication origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions

from loader.source.asking import ask_server, read_server, read_slot_state
from loader.source.remedies import Provider, slot_finding
from loader.source.server import Timeline
from loader.source.slot import SlotInfo
from loader.source.standbys import read_history
from loader.staging import migrate
from loader.staging.records import SlotPosition
from loader.staging.target_state import read_slot_position
from waltally import locks, lsn
from waltally.database import Connection, Target, replication_command
from waltally.errors import LoaderError, SlotCreationBlocked, SlotInUse
from waltally.server_errors import ServerError
from waltally.settings import Settings
from waltally.tables import literal


def read_slot(settings: Settings, source: Connection, target: Target) -> SlotInfo:
    """Read the slot from source and target. Raises LoaderError.

    The history of timelines needs a replication connection. Where none can be opened, the timeline
    is left out.
    """
    # In this order, because a running loader moves all three: the slot is never ahead of the
    # record, and the record is never ahead of the end of the WAL.
    state = read_slot_state(source, settings.slot)
    record = None
    if migrate.version(target):
        record = read_slot_position(target)
    server = read_server(source)
    if record is not None and server.timeline is not None:
        server = replace(server, timeline=_history(settings.source, server.timeline.number))
    return SlotInfo(settings.slot, state, record, server)


def _history(dsn: str, number: int) -> Timeline | None:
    """Return the timeline with its history; None where it cannot be read."""
    try:
        return read_history(number, lambda command: replication_command(dsn, command))
    except LoaderError:
        return None


def create_slot(
    source: Connection,
    name: str,
    timeout: int,
    *,
    temporary: bool,
    copied: bool = False,
) -> int:
    """Make the slot and return its consistent point; wait at most `timeout` seconds for writers.

    A temporary slot only shows that one can be made. It has another name and ends with the session.
    With `copied`, which PostgreSQL has from 17 on, other servers keep a copy of the slot.
    Raises SlotCreationBlocked, PluginMissing, PluginNotAllowed, NoFreeSlot.
    """
    if temporary:
        name = f"{name[:50]}_check"
    more = ", failover => true" if copied else ""
    try:
        with source.transaction():
            source.ask(f"set local statement_timeout to '{timeout}s'")
            # In SQL, because statement_timeout does not limit replication commands.
            ((point,),) = source.ask(
                f"select lsn from pg_create_logical_replication_slot(%s, 'wal2json', %s{more})",
                (name, temporary),
            )
    except LoaderError as error:
        if isinstance(error.__cause__, pg.QueryCanceled):
            raise _creation_blocked(source, timeout) from None
        assert isinstance(error.__cause__, psycopg2.Error)
        provider = ask_server(source, name).provider
        if (finding := creation_finding(error.__cause__, source, provider)) is None:
            raise
        raise finding from None
    return lsn.parse(point)


def _creation_blocked(source: Connection, timeout: int) -> SlotCreationBlocked:
    writers = source.ask(WRITERS, {"xids": None})
    return SlotCreationBlocked(
        f"The slot could not be made within {timeout} s: it waits for transactions that were "
        "writing when it began, " + describe_writers(writers),
        "wait for them or end them, then run `loader setup` again; --timeout waits longer"
        + ends_of_prepared(writers),
    )


def creation_finding(
    error: psycopg2.Error, source: extensions.connection, provider: Provider | None = None
) -> LoaderError | None:
    """Return why the server does not make a slot; None for any other error."""
    major = source.server_version // 10_000
    return slot_finding(ServerError.of(error), "", source.info.user, major, provider)


def left_slot(record: SlotPosition) -> str:
    """Return what to say of a slot that another server may still have."""
    return (
        f"the slot {record.slot_name} is left, in database {record.source_database} of cluster "
        f"{record.system_identifier}; if that server still runs or comes back, it holds WAL there "
        "until it is dropped"
    )


def require_no_loader(target: Target) -> None:
    """Raise SlotInUse while a loader writes for the slot into this target, whatever it follows.

    The lock is held until the session ends. A loader that starts meanwhile ends this session, and
    what was not committed is undone.
    """
    names = (target.schema, target.slot)
    if locks.acquire(target, "loader", *names, seconds=_LOADER_ENDS_SECONDS):
        return
    holders = target.ask(locks.HOLDERS, {"key": locks.key("loader", *names)})
    pids = ", ".join(f"pid {pid}" for (pid,) in holders) or "another session"
    raise SlotInUse(
        f"A loader writes for the slot {target.slot} into schema {target.schema} of the target "
        f"({pids} there)",
        "stop the loader first",
    )


_LOADER_ENDS_SECONDS = 1.0
"""How long the session of a loader that has just ended may still hold the lock."""


def drop_slot(source: Connection, name: str) -> None:
    """Drop the slot. Raises SlotInUse while somebody follows it."""
    try:
        source.ask("select pg_drop_replication_slot(%s)", (name,))
    except LoaderError as error:
        if isinstance(error.__cause__, pg.ObjectInUse):
            message = error.__cause__.diag.message_primary
            raise SlotInUse(
                f"The slot {name} is in use: {message}", "stop the loader first"
            ) from None
        raise


def origin_name(slot: str) -> str:
    """Return the name of the replication origin that tags the loader's own writes."""
    return f"waltally_{slot}"


def make_origin(source: Connection, name: str) -> bool:
    """Make the origin that tags the loader's writes; False where it exists or the role may not."""
    return _origin(
        source,
        "select pg_replication_origin_create(%(name)s) where not exists "
        "(select 1 from pg_replication_origin where roname = %(name)s)",
        name,
    )


def drop_origin(source: Connection, name: str) -> bool:
    """Drop the origin; False where there is none or the role may not."""
    return _origin(
        source,
        "select pg_replication_origin_drop(roname) from pg_replication_origin "
        "where roname = %(name)s",
        name,
    )


def _origin(source: Connection, query: str, name: str) -> bool:
    """Run a statement about the origin; False where the role may not, which only costs speed."""
    try:
        return bool(source.ask(query, {"name": origin_name(name)}))
    except LoaderError:
        return False


# The lock of a prepared transaction has no process, and no row in pg_stat_activity.
WRITERS = """
select distinct on (locks.pid, prepared.gid)
    locks.pid,
    prepared.gid,
    prepared.database::text,
    extract(epoch from now() - coalesce(activity.xact_start, prepared.prepared))::bigint,
    coalesce(activity.usename, prepared.owner)::text,
    activity.application_name
from pg_locks as locks
left join pg_stat_activity as activity on activity.pid = locks.pid
left join pg_prepared_xacts as prepared
    on locks.pid is null and prepared.transaction = locks.transactionid
where
    locks.locktype = 'transactionid'
    and locks.granted
    and locks.mode = 'ExclusiveLock'
    and (%(xids)s::bigint[] is null or locks.transactionid::text::bigint = any(%(xids)s))
order by locks.pid nulls first, prepared.gid
"""
"""Gives the open transactions that have written: those of `xids`, or all where that is null.

`xids` are without the epoch. A role without pg_read_all_stats does not see the age of others'.
"""

Writers = Sequence[Sequence[Any]]
"""The rows of WRITERS."""

_MOST = 5


def describe_writers(writers: Writers) -> str:
    """Return who has the transactions open and for how long, as the end of a sentence."""
    if not writers:
        return "none of which is left now"
    more = f" and {len(writers) - _MOST} more" if len(writers) > _MOST else ""
    return "now " + ", ".join(_described(*writer) for writer in writers[:_MOST]) + more


def ends_of_prepared(writers: Writers) -> str:
    """Return how to end prepared transactions, for a remedy; empty where there are none."""
    statements = [
        f"in database {database}: commit prepared {literal(gid)}; -- or: rollback prepared "
        f"{literal(gid)};"
        for _, gid, database, *_ in writers[:_MOST]
        if gid is not None
    ]
    if not statements:
        return ""
    return ". A prepared transaction stays open until somebody ends it, " + " ".join(statements)


def _described(pid: int | None, gid: str | None, *others: Any) -> str:
    _, age, user, application = others
    who = f"prepared transaction {literal(gid)}" if gid is not None else f"pid {pid}"
    whose = f" ({' '.join(word for word in (user, application) if word)})" if user else ""
    return who + whose + ("" if age is None else f" open for {age} s")
