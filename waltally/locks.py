"""Every advisory lock at the target, of loader, Spark, dbt and the functions of the schema.

Each has a number that no other program has: `key` computes it here, cdc.lock_key in the database,
the macro lock_key in dbt, which makes schemas and tables before there is a function.
"""

from __future__ import annotations

import time
from hashlib import md5
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from waltally.database import Connection

Kind = Literal[
    "loader",  # writes for a slot
    "setup",  # makes or upgrades a schema
    "registration",  # registers the models of a slot of a schema
    "partitions",  # makes or drops a partition of the change log of a schema
    "prune",  # of a schema
    "seed",  # of a slot
    "moved",  # fills a table beside the staging tables, of this name
    "seeding",  # a seed counts a model for a slot; shared with who started it; model_state says so
    "slot",  # brings the models of a slot that follow to the next position
    "computed",  # of a slot: shared by those who add what Spark has computed
    "model",  # changes the rows of a model: one transaction at a time, whichever slot it is for
    "fill",  # fills a model over models while its inputs change; shared by those who leave it out
    "queue",  # changes inputs of a model over models that is to be filled
    "reader",  # makes a project's function that reads the change log
    "dbt schema",  # makes a schema that dbt builds in, or grants its usage
    "dbt relation",  # makes a table or a view that dbt keeps
    "wait",  # of a slot: shared by those who wait for a position
]
"""What the holder of the lock does."""

_PAUSE_SECONDS = 0.2

_HOLDERS = """
from pg_locks
where
    locktype = 'advisory'
    and objsubid = 1
    and classid::bigint = %(key)s::bigint >> 32 & 4294967295
    and objid::bigint = %(key)s::bigint & 4294967295
    and database = (select oid from pg_database where datname = current_database())
    and granted
"""
TRY = "select pg_try_advisory_lock(%(key)s)"
IS_HELD = f"select count(*) > 0 {_HOLDERS}"
"""Whether a session holds the lock of this key, which may be another one."""
HOLDERS = f"select pid {_HOLDERS}"
END_HOLDERS = f"select pg_terminate_backend(pid) {_HOLDERS}"


def key(kind: Kind, *names: str) -> int:
    """Return the number of a lock, as cdc.lock_key does; `names` say whose it is."""
    text = "\n".join(("waltally", kind, *names)).encode()
    return int.from_bytes(md5(text, usedforsecurity=False).digest()[:8], signed=True)


def acquire(
    connection: Connection,
    kind: Kind,
    *names: str,
    seconds: float = 0.0,
    ends_holders: bool = False,
) -> bool:
    """Take the lock until the session ends; return False where others still hold it at the end.

    It asks again and again, because a statement that waits has a snapshot, which holds vacuum back.
    """
    deadline = time.monotonic() + seconds
    number = {"key": key(kind, *names)}
    while connection.ask(TRY, number) != [(True,)]:
        if time.monotonic() >= deadline:
            return False
        if ends_holders:
            connection.ask(END_HOLDERS, number)
        time.sleep(_PAUSE_SECONDS)
    return True


def hold(connection: Connection, kind: Kind, *names: str) -> None:
    """Wait for the lock and hold it until the session ends."""
    connection.ask("select pg_advisory_lock(%(key)s)", {"key": key(kind, *names)})


def share(connection: Connection, kind: Kind, *names: str) -> None:
    """As `hold`, beside others who share it."""
    connection.ask("select pg_advisory_lock_shared(%(key)s)", {"key": key(kind, *names)})


def wait(connection: Connection, kind: Kind, *names: str) -> None:
    """Wait for the lock and hold it until the open transaction ends."""
    connection.ask("select pg_advisory_xact_lock(%(key)s)", {"key": key(kind, *names)})
