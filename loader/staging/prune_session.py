"""The session that prunes: one at a time, never in the way for long; and what it asks first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg2 import extensions, sql

from loader.staging.layout import PARTITION_NAME, Block
from loader.staging.log_consumers import Archive, Consumers, Model, Reader
from loader.staging.pruned import BESIDE_THE_LOG, IS_LIKE_THE_LOG, IS_MARKED, LOCK, STATE
from loader.staging.retention import Partition
from loader.staging.target_state import SLOT_POSITIONS, slot_position
from waltally import lsn
from waltally.database import explained
from waltally.errors import Interrupted

TRY_SECONDS = 2
"""The longest wait for a lock while another is held; an autovacuum gives way within a second."""


class PruneSession:
    """The change log at the target, in a session of its own."""

    def __init__(self, connection: extensions.connection, schema: str, timeout: int) -> None:
        self.connection = connection
        self.schema = schema
        self.timeout = timeout
        connection.autocommit = True
        with explained("target"), connection.cursor() as cursor:
            cursor.execute("select set_config('lock_timeout', %s, false)", (f"{timeout}s",))
            # A killed prune must not hold its lock until the wait is over.
            cursor.execute("set client_connection_check_interval to '1s'")

    def acquire_prune_lock(self) -> None:
        """Keep every other prune from running until the session ends. Raises Interrupted."""
        deadline = time.monotonic() + self.timeout
        # Polled: a session that waits inside a statement would block a detach.
        while not self.query(f"select 1 where pg_try_advisory_lock({LOCK})", self.schema):
            if time.monotonic() > deadline:
                raise Interrupted(
                    f"Another prune or a setup of schema {self.schema} is running",
                    "let it end; pg_locks shows it as advisory",
                )
            time.sleep(0.2)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run what is within in one transaction, with short waits for locks."""
        # The driver begins one where autocommit is off; the connection commits at the end of it.
        self.connection.autocommit = False
        try:
            with explained("target"), self.connection:
                self.run(f"set local lock_timeout = '{min(TRY_SECONDS, self.timeout)}s'")
                yield
        finally:
            if not self.connection.closed:
                self.connection.autocommit = True

    def query(self, query: str, *values: object, table: str = "") -> list[tuple[Any, ...]]:
        """Return the rows of a query; `{0}` in it is the schema and `{1}` the table."""
        with explained("target"), self.connection.cursor() as cursor:
            cursor.execute(self._named(query, table), values or None)
            return cursor.fetchall()

    def run(self, statement: str, values: dict[str, object] | None = None, table: str = "") -> None:
        """Run a statement; `{0}` in it is the schema and `{1}` the table."""
        with explained("target"), self.connection.cursor() as cursor:
            cursor.execute(self._named(statement, table), values)

    def _named(self, statement: str, table: str) -> sql.Composed:
        return sql.SQL(statement).format(sql.Identifier(self.schema), sql.Identifier(table))


_SLOTS = f"{SLOT_POSITIONS} order by slot_name"
# plan_models is what the view fact_state is made of.
_MODELS = """
select
    plans.model_name,
    plans.fact_name,
    plans.slot_name,
    exists (
        select from pg_class as c
        inner join pg_namespace as n on n.oid = c.relnamespace
        where n.nspname || '.' || c.relname = plans.model_name
    ),
    plans.reason,
    plans.remedy,
    plans.step is not distinct from 'rebuild',
    plans.applied_lsn,
    plans.snapshot_lsn
from {0}.slot_position as log
cross join lateral {0}.plan_models(log.slot_name) as plans
order by plans.model_name
"""
_READERS = "select reader, slot_name, applied_lsn from {0}.reader_position order by reader"
_ARCHIVES = "select slot_name, from_lsn, archived_lsn, location from {0}.archive_position"
_STILL = "select slot_name, extract(epoch from now() - moved_at)::float8 from {0}.slot_position"


def read_consumers(session: PruneSession, lock: bool = False) -> Consumers:
    """Return who needs the log; `lock` keeps the slots' rows from changing.

    Raises Interrupted where a slot's row is locked by somebody else at the moment.
    """
    slots = session.query(_SLOTS + (" for no key update nowait" if lock else ""))
    return Consumers(
        session.schema,
        tuple(map(slot_position, slots)),
        tuple(
            Model(
                name,
                fact,
                slot,
                exists,
                reason,
                remedy,
                is_rebuilt,
                lsn.parse(applied) if applied else None,
                lsn.parse(at) if at else None,
            )
            for name, fact, slot, exists, reason, remedy, is_rebuilt, applied, at in (
                session.query(_MODELS)
            )
        ),
        tuple(
            Reader(name, slot, lsn.parse(applied))
            for name, slot, applied in session.query(_READERS)
        ),
        tuple(
            Archive(slot, lsn.parse(first), lsn.parse(end), location)
            for slot, first, end, location in session.query(_ARCHIVES)
        ),
        dict(session.query(_STILL)),
    )


_PARTITIONS = f"""
select
    c.relname,
    {STATE},
    coalesce(pg_total_relation_size(c.oid), 0),
    c.reltuples::bigint,
    pg_get_expr(c.relpartbound, c.oid),
    {IS_MARKED}
from {BESIDE_THE_LOG}
where
    n.nspname = %s
    and c.relname ~ %s
    and {IS_LIKE_THE_LOG}
order by c.relname
"""

_COUNTED_BYTES = 64 * 2**20
"""The rows of a smaller partition are counted."""

# Fast, over the primary key: first the slots that the partition has, then each slot's last row.
_AGE = """
with recursive slot (name) as (
    (select slot_name from {0}.{1} order by slot_name limit 1)
    union all
    select (select slot_name from {0}.{1} where slot_name > slot.name order by slot_name limit 1)
    from slot
    where slot.name is not null
)
select extract(epoch from now() - max(newest.staged_at))::float8
from slot
cross join lateral (
    select staged_at from {0}.{1} as log
    where log.slot_name = slot.name
    order by log.slot_name desc, log.commit_lsn desc, log.ordinal desc
    limit 1
) as newest
"""


def read_partitions(session: PruneSession) -> list[Partition]:
    """Return the loader's partitions. Tables with other columns or bounds are not ours."""
    found = []
    for name, state, size, estimate, bounds, is_pruned in session.query(
        _PARTITIONS, session.schema, PARTITION_NAME
    ):
        block = Block.named(name)
        first, end = lsn.show(block.from_lsn), lsn.show(block.to_lsn)
        if state != "detached" and bounds != f"FOR VALUES FROM ('{first}') TO ('{end}')":
            continue
        # A table that was never analyzed has no estimate; autovacuum analyzes every larger one.
        is_estimate = size >= _COUNTED_BYTES and estimate >= 0
        rows = estimate if is_estimate else _count(session, name)
        found.append(
            Partition(block, state, size, _age(session, name), rows, is_estimate, is_pruned)
        )
    return found


def _age(session: PruneSession, name: str) -> float | None:
    ((age,),) = session.query(_AGE, table=name)
    return None if age is None else float(age)


def _count(session: PruneSession, name: str) -> int:
    ((rows,),) = session.query("select count(*) from {0}.{1}", table=name)
    return int(rows)
