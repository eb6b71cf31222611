"""The transactions that a new slot or snapshot waits for, so that a person can end them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waltally.tables import literal

# The lock of a prepared transaction has no process. It is in no pg_stat_activity.
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
"""Those that have written, or those of `xids`, the numbers of the WAL without the epoch; null: all.

The server hides the age of others' transactions from a role without pg_read_all_stats.
"""

Writers = Sequence[Sequence[Any]]
"""The rows of WRITERS."""

_MOST = 5


def describe(writers: Writers) -> str:
    """Return whose they are and how long they are open, as the end of a sentence."""
    if not writers:
        return "none of which is left now"
    more = f" and {len(writers) - _MOST} more" if len(writers) > _MOST else ""
    return "now " + ", ".join(_described(*each) for each in writers[:_MOST]) + more


def ends_of_prepared(writers: Writers) -> str:
    """Return how to end the prepared ones among them, for a remedy; empty without any."""
    statements = [
        f"in database {database}: commit prepared {literal(gid)}; -- or: rollback prepared "
        f"{literal(gid)};"
        for _, gid, database, *_ in writers[:_MOST]
        if gid is not None
    ]
    said = ". A prepared transaction stays open until somebody ends it, "
    return said + " ".join(statements) if statements else ""


def _described(pid: int | None, gid: str | None, *others: Any) -> str:
    _, age, user, application = others
    who = f"prepared transaction {literal(gid)}" if gid is not None else f"pid {pid}"
    whose = f" ({' '.join(word for word in (user, application) if word)})" if user else ""
    return who + whose + ("" if age is None else f" open for {age} s")
