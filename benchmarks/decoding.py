"""Decoding alone: PostgreSQL's own pg_recvlogical reads what the loader reads, into nothing."""

from __future__ import annotations

import time

from loader.capture.wal2json import options
from loader.source.slot_admin import origin_name
from testkit.servers import Cluster
from testkit.source import transaction
from testkit.waiting import wait_until

TABLES = [("public", "notifications"), ("public", "notification_history")]
"""What is decoded, as schema and name."""
_COPY = "decoding_once"


def make_slot(cluster: Cluster, name: str) -> None:
    """Make a slot that holds the WAL from here on and that nobody follows."""
    with transaction(cluster.dsn()) as cursor:
        cursor.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", (name,))


def drop_slot(cluster: Cluster, name: str) -> None:
    """Drop the slot, and with it its hold on the WAL."""
    with transaction(cluster.dsn()) as cursor:
        cursor.execute("select pg_drop_replication_slot(%s)", (name,))


def wal_end(cluster: Cluster) -> str:
    """Return a position after everything committed, with WAL behind it, so that it is reached."""
    with transaction(cluster.dsn()) as cursor:
        cursor.execute("select pg_current_wal_insert_lsn()")
        ((end,),) = cursor.fetchall()
        cursor.execute("select pg_logical_emit_message(true, '', '')")
    return str(end)


def command(cluster: Cluster, slot: str, end: str, origin: int | None = None) -> list[str]:
    """Return pg_recvlogical's words: read the slot up to the end as the loader would, keep nothing.

    `origin` is the number of the replication origin whose changes the loader has left out.
    """
    chosen = options(TABLES, origin)
    return [
        "pg_recvlogical",
        f"--dbname={cluster.dsn()}",
        f"--slot={slot}",
        "--start",
        "--no-loop",
        f"--endpos={end}",
        "--file=/dev/null",
        *(f"--option={name}={value}" for name, value in chosen.items()),
    ]


def decode(cluster: Cluster, name: str, end: str, follower: str) -> float:
    """Return the seconds from start to end of pg_recvlogical for a slot's WAL up to `end`.

    The plugin's options are those that the loader has on its slot `follower`, the filter of its
    own writes too. The slot `name` stays as it is, so that the same WAL can be read again.
    Raises RuntimeError where the program ends before `end`.
    """
    with transaction(cluster.dsn()) as cursor:
        cursor.execute(
            "select roident from pg_replication_origin where roname = %s", (origin_name(follower),)
        )
        origins = [int(number) for (number,) in cursor.fetchall()]
        cursor.execute("select pg_copy_logical_replication_slot(%s, %s)", (name, _COPY))
    began = time.monotonic()
    cluster.run(*command(cluster, _COPY, end, origins[0] if origins else None))
    seconds = time.monotonic() - began
    with transaction(cluster.dsn()) as cursor:
        cursor.execute(
            "select confirmed_flush_lsn >= %s from pg_replication_slots where slot_name = %s",
            (end, _COPY),
        )
        reached = cursor.fetchall() == [(True,)]
    _drop_when_free(cluster)
    if not reached:
        raise RuntimeError(f"pg_recvlogical ended before {end}")
    return seconds


def _drop_when_free(cluster: Cluster) -> None:
    """Drop the copy; its sender may need a moment to see that the program has gone."""

    def is_free() -> bool:
        with transaction(cluster.dsn()) as cursor:
            cursor.execute("select active from pg_replication_slots where slot_name = %s", (_COPY,))
            return cursor.fetchall() == [(False,)]

    wait_until(is_free, "the copy of the slot is free", 10)
    drop_slot(cluster, _COPY)
