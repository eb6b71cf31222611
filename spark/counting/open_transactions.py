"""The transactions that the snapshot waits for, named so that a person can end them."""

from __future__ import annotations

from collections.abc import Collection

from common.connections import Connection

_WRITERS = """
    select distinct on (locks.pid, prepared.gid)
        coalesce('pid ' || locks.pid, 'prepared transaction ' || quote_literal(prepared.gid)),
        extract(epoch from now() - coalesce(activity.xact_start, prepared.prepared))::bigint,
        activity.usename,
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
    order by locks.pid, prepared.gid
"""


def read(connection: Connection, xids: Collection[int] | None = None) -> list[str]:
    """Return the transactions that have written, or those of `xids`: whose, and open how long.

    The server hides the age of others' transactions from a role without pg_read_all_stats.
    """
    numbers = None if xids is None else [xid & 0xFFFFFFFF for xid in xids]
    return [
        f"{who}"
        + (f" ({' '.join(str(word) for word in (user, application) if word)})" if user else "")
        + (f" open for {age} s" if age is not None else "")
        for who, age, user, application in connection.execute(_WRITERS, {"xids": numbers})
    ]


def describe(connection: Connection, xids: Collection[int] | None = None, most: int = 5) -> str:
    """Return what `read` returns as the end of a sentence."""
    found = read(connection, xids)
    if not found:
        return "none of which is left now"
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return "now " + ", ".join(found[:most]) + more
