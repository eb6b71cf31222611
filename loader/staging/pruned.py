"""What making, pruning and purging share: how to recognise a partition, the mark, the lock."""

from __future__ import annotations

import time

from psycopg2 import extensions, sql

from waltally.database import explained
from waltally.errors import Interrupted

LOCK = "hashtext('waltally prune'), hashtext(%s)"
"""SQL: the advisory lock of a schema that a prune holds; takes the schema's name."""

MARK = "Pruned: no slot, model or rebuild needs these rows any more. Drop it, never attach it."
"""A partition's comment, set in the transaction that moves start_lsn beyond the partition."""

IS_MARKED = f"coalesce(obj_description(c.oid, 'pg_class') = '{MARK}', false)"
"""SQL: whether the table `c` of pg_class is marked."""

_COLUMNS = (
    "array(select a.attname || ' ' || a.atttypid from pg_attribute as a where a.attrelid = {}.oid "
    "and a.attnum > 0 and not a.attisdropped order by a.attname)"
)
IS_LIKE_THE_LOG = f"(c.relkind = 'r' and {_COLUMNS.format('c')} = {_COLUMNS.format('log')})"
"""SQL: whether `c` of pg_class has the columns of `log`, the change log. Another program's table
may have the name of a partition."""

BESIDE_THE_LOG = """pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_class as log on log.relnamespace = n.oid and log.relname = 'change_log'
left join pg_inherits as i on i.inhrelid = c.oid and i.inhparent = log.oid
"""
"""SQL: the tables `c` in the schema `n` of the change log, and `i` where one is a part of it."""

STATE = (
    "case when i.inhparent is null then 'detached' when i.inhdetachpending then 'pending' "
    "else 'attached' end"
)
"""SQL: whether a table of BESIDE_THE_LOG is a partition of it."""

_ATTACHED_AND_MARKED = f"""
select c.relname
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
inner join pg_inherits as i on i.inhrelid = c.oid
where n.nspname = %s and not i.inhdetachpending and {IS_MARKED}
"""

_PATIENCE = 60.0


def hold_off_prunes(connection: extensions.connection, schema: str) -> None:
    """Keep prunes of the schema from running until the session ends, for a log that begins anew.

    The new log may begin before the old one ended, and a prune that still runs would detach the
    partitions that it writes to. For the same reason the marks of partitions that were never
    detached are removed. Raises Interrupted where a prune does not end within a minute.
    """
    deadline = time.monotonic() + _PATIENCE
    # Polled: a session that waits inside a statement would block a detach.
    while not _try_lock(connection, schema):
        if time.monotonic() > deadline:
            raise Interrupted(
                f"A prune of schema {schema} is running",
                "run it again when `loader prune` has ended; pg_locks shows it as advisory",
            )
        time.sleep(0.2)
    with explained("target"), connection, connection.cursor() as cursor:
        cursor.execute(_ATTACHED_AND_MARKED, (schema,))
        for (name,) in cursor.fetchall():
            table = sql.Identifier(schema, name)
            cursor.execute(sql.SQL("comment on table {} is null").format(table))


def _try_lock(connection: extensions.connection, schema: str) -> bool:
    with explained("target"), connection, connection.cursor() as cursor:
        cursor.execute(f"select pg_try_advisory_lock_shared({LOCK})", (schema,))
        return cursor.fetchall() == [(True,)]
