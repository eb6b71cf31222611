"""Makes and drops the slot and the replication origin, over a plain connection."""

from __future__ import annotations

import psycopg2
from psycopg2 import errors as pg
from psycopg2 import extensions

from loader import lsn, slot
from loader.database import explain
from loader.errors import (
    NoFreeSlot,
    PluginMissing,
    PluginNotAllowed,
    SlotCreationBlocked,
    SlotInUse,
)


def create_slot(source: extensions.connection, name: str, timeout: int, *, temporary: bool) -> int:
    """Make the slot and return its consistent point; the wait for writers ends at `timeout` s.

    A temporary one, under another name, only shows that it can be made and goes with the session.
    Raises SlotCreationBlocked, PluginMissing, PluginNotAllowed, NoFreeSlot.
    """
    if temporary:
        name = f"{name[:50]}_check"
    try:
        with source, source.cursor() as cursor:
            cursor.execute(f"set local statement_timeout to '{timeout}s'")
            # Over SQL, as statement_timeout bounds no replication command.
            cursor.execute(
                "select lsn from pg_create_logical_replication_slot(%s, 'wal2json', %s)",
                (name, temporary),
            )
            row = cursor.fetchone()
    except pg.QueryCanceled:
        raise SlotCreationBlocked(
            f"The slot could not be made within {timeout} s: it waits for transactions "
            f"that were writing when it began ({_writers(source)})",
            "let them end or end them, then `loader setup` again; --timeout waits longer",
        ) from None
    except pg.UndefinedFile:
        raise PluginMissing(
            "wal2json is not installed on the source",
            "install it there: apt-get install postgresql-15-wal2json, or your provider's way",
        ) from None
    except pg.ConfigurationLimitExceeded as error:
        raise NoFreeSlot(
            f"The source has no free slot: {error.diag.message_primary}",
            "drop one, or raise max_replication_slots and restart the source",
        ) from None
    except psycopg2.Error as error:
        if "output_plugin_libraries" in str(error):
            raise PluginNotAllowed(
                f"The source does not allow wal2json: {error.diag.message_primary}",
                "alter system set output_plugin_libraries = 'wal2json'; then restart the source",
            ) from None
        raise explain(error, "source") from error
    assert row is not None
    return lsn.parse(row[0])


def _writers(source: extensions.connection) -> str:
    with source, source.cursor() as cursor:
        cursor.execute(
            "select pid, usename, (now() - xact_start)::interval(0)::text from pg_stat_activity "
            "where backend_xid is not null and pid <> pg_backend_pid() order by xact_start limit 5"
        )
        rows = cursor.fetchall()
    return ", ".join(f"pid {pid} of {role} for {age}" for pid, role, age in rows) or "now over"


def drop_slot(source: extensions.connection, name: str) -> None:
    """Drop the slot. Raises SlotInUse while somebody follows it."""
    try:
        with source, source.cursor() as cursor:
            cursor.execute("select pg_drop_replication_slot(%s)", (name,))
    except pg.ObjectInUse as error:
        raise SlotInUse(
            f"The slot {name} is in use: {error.diag.message_primary}", "stop the loader first"
        ) from None
    except psycopg2.Error as error:
        raise explain(error, "source") from error


def make_origin(source: extensions.connection, name: str) -> bool:
    """Make the origin that tags the loader's own writes; False where it exists or we may not."""
    return _origin(
        source,
        "select pg_replication_origin_create(%(name)s) where not exists "
        "(select 1 from pg_replication_origin where roname = %(name)s)",
        name,
    )


def drop_origin(source: extensions.connection, name: str) -> bool:
    """Drop the origin; False where there is none or we may not."""
    return _origin(
        source,
        "select pg_replication_origin_drop(roname) from pg_replication_origin "
        "where roname = %(name)s",
        name,
    )


def _origin(source: extensions.connection, query: str, name: str) -> bool:
    """Run a statement about the origin; False where the role may not, which costs only speed."""
    try:
        with source, source.cursor() as cursor:
            cursor.execute(query, {"name": slot.origin_name(name)})
            return cursor.rowcount > 0
    except psycopg2.Error:
        return False
