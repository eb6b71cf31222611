"""A warehouse as it is after years: a change log and a fact of any size, made by SQL."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2

from benchmarks.growth.build import SCHEMA, SLOT, Build, settings, timed_build
from demo.cluster import Cluster
from demo.source import transaction
from loader.build.builder import Models
from loader.staging.change_log import ChangeLog
from loader.staging.layout import PARTITION_BITS, partition_number
from waltally import lsn
from waltally.settings import DEFAULT_TABLES

_WAREHOUSE = "warehouse"

_FIRST = 16 << PARTITION_BITS
"""Where the made log begins; the server's own WAL is far below."""

# place(g) names group g. Groups that are neighbours by number are not neighbours in the fact's
# indexes, as ids are random.
_PLACES = """
create function public.place(
    g bigint, out service_id uuid, out template_id uuid, out type text, out status text
) language sql immutable parallel safe as $$
    select
        md5('service ' || g / 500)::uuid, md5('template ' || g / 5)::uuid,
        (array['email', 'sms', 'letter'])[1 + g / 5 % 3],
        (array['created', 'sending', 'delivered', 'temporary-failure', 'permanent-failure'])[
            1 + g % 5
        ]
$$
"""
_BULK = """
insert into cdc.{partition} (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)
select
    %(slot)s, '0/0'::pg_lsn + (%(first)s + n * %(step)s), 1, n, now(), 'I',
    '{{"action":"I","schema":"public","table":"notifications"}}'
from generate_series(%(from)s::bigint, %(to)s) as n
"""
_BATCH = """
insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)
select
    %(slot)s, '0/0'::pg_lsn + (%(first)s + n * %(step)s), 1, n, now(), 'I',
    format(%(payload)s, place.service_id, place.template_id, place.type, place.status)
from generate_series(0, %(changes)s - 1) as n
cross join lateral public.place(n %% %(touched)s * (%(groups)s / %(touched)s)) as place
"""
_MOVE = "update cdc.slot_position set position_lsn = %s where slot_name = %s"
_SEED = """
insert into cdc.historical_counts
select %(slot)s, %(table)s, place.*, 1
from generate_series(0, %(groups)s - 1) as g
cross join lateral public.place(g) as place
"""
_SNAPSHOT = """
insert into cdc.historical_snapshot (slot_name, seed_id, snapshot_lsn, system_identifier)
select slot_name, gen_random_uuid(), position_lsn, system_identifier from cdc.slot_position
"""
_COUNTED = """
select
    (select count(*) from analytics.ft_service_stats),
    (select sum(count) from analytics.ft_service_stats),
    (select count(*) from analytics.rejected_changes)
"""
_BOUND = """
select
    set_config('waltally.from_lsn', %(at)s, true), set_config('waltally.to_lsn', %(at)s, true),
    set_config('waltally.rebuild', 'off', true)
"""
_PARTITIONS = """
select relid::regclass::text, pg_total_relation_size(relid)
from pg_partition_tree('cdc.change_log') where isleaf order by 1
"""


class State:
    """A database with a change log and a fact of these sizes, and the models that build on it."""

    def __init__(
        self, cluster: Cluster, models: Models, name: str, step: int, payload: str
    ) -> None:
        """Copy the database `postgres`, where setup was; a change is `step` bytes of WAL."""
        self._cluster, self._models, self._name = cluster, models, name
        self._step, self._payload = step, payload
        self._next = _FIRST
        self._groups = self._counted = 0
        self.dsn = cluster.dsn(name)
        self._administer(f"create database {name} template postgres")
        with transaction(self.dsn) as cursor:
            cursor.execute(_PLACES)

    def fill_log(self, rows: int, per_window: int | None = None) -> None:
        """Add rows that count as applied; `per_window` puts so many into each partition."""
        each = per_window or (1 << PARTITION_BITS) // self._step
        parts: list[tuple[int, int]] = []
        for first in range(0, rows, each):
            start = _FIRST + (len(parts) << PARTITION_BITS)
            parts.append((start, min(each, rows - first)))
        self._ensure(start for start, _ in parts)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._fill_window, parts))
        start, last = parts[-1]
        self._next = start + last * self._step

    def fill_fact(self, groups: int) -> None:
        """Seed the fact with so many groups of one row each and build it."""
        self._groups = self._counted = groups
        with transaction(self.dsn) as cursor:
            cursor.execute(_MOVE, (lsn.show(self._next), SLOT))
            table = DEFAULT_TABLES.split(",")[0]
            cursor.execute(_SEED, {"slot": SLOT, "table": table, "groups": groups})
            cursor.execute(_SNAPSHOT)
        self.build()
        with closing(psycopg2.connect(self.dsn)) as connection:
            connection.autocommit = True  # vacuum refuses a transaction
            connection.cursor().execute("vacuum (analyze)")
        self.check()

    def stage(self, changes: int, touched: int) -> None:
        """Stage inserts, each a transaction, that touch so many groups from all over the fact."""
        end = self._next + changes * self._step
        self._ensure((self._next, end))
        with transaction(self.dsn) as cursor:
            cursor.execute(
                _BATCH,
                {
                    "slot": SLOT,
                    "first": self._next,
                    "step": self._step,
                    "payload": self._payload,
                    "changes": changes,
                    "touched": min(touched, self._groups),
                    "groups": self._groups,
                },
            )
            cursor.execute(_MOVE, (lsn.show(end), SLOT))
        self._next = end
        self._counted += changes

    def build(self) -> Build:
        """Apply what is staged and return what it took."""
        with self._as_warehouse():
            return timed_build(self._cluster, self._models, settings(self._cluster, _WAREHOUSE))

    def check(self) -> None:
        """Raise RuntimeError unless the fact holds all that was seeded and staged."""
        with transaction(self.dsn) as cursor:
            cursor.execute(_COUNTED)
            found = cursor.fetchone()
        if found != (self._groups, self._counted, 0):
            raise RuntimeError(
                f"groups, rows, rejected: {found}, not {self._groups, self._counted}"
            )

    def fact_row(self) -> dict[str, object]:
        """Return the fact's groups and its bytes for each, of the table and of its indexes."""
        heap = self._number("select pg_table_size('analytics.ft_service_stats')")
        index = self._number("select pg_indexes_size('analytics.ft_service_stats')")
        return {
            "groups": self._groups,
            "heap bytes a group": heap / self._groups,
            "index bytes a group": index / self._groups,
        }

    def log_rows(self) -> int:
        """Return how many rows the change log has."""
        return self._number("select count(*) from cdc.change_log")

    def partitions(self) -> list[tuple[str, int]]:
        """Return the log's partitions, oldest first, with their bytes."""
        with transaction(self.dsn) as cursor:
            cursor.execute(_PARTITIONS)
            return [(str(name), int(size)) for name, size in cursor.fetchall()]

    def drop_applied(self) -> tuple[int, float]:
        """Drop the partitions that hold applied changes only; return how many, and the seconds."""
        with transaction(self.dsn) as cursor:
            cursor.execute("select min(applied_lsn) from cdc.model_watermark")
            ((applied,),) = cursor.fetchall()
        live = partition_number(lsn.parse(applied))
        old = [name for name, _ in self.partitions() if int(name[-8:], 16) < live]
        began = time.monotonic()
        for name in old:
            with transaction(self.dsn) as cursor:
                cursor.execute(f"drop table {name}")
        return len(old), time.monotonic() - began

    def planning_seconds(self, target: Path) -> float:
        """Return how long planning the fact's batch takes in a new session, as each build has one.

        `target` is where dbt left the compiled query of a build.
        """
        (compiled,) = target.rglob("compiled/**/ft_service_stats.sql")
        with self._as_warehouse(), transaction(self._cluster.dsn(_WAREHOUSE)) as cursor:
            cursor.execute(_BOUND, {"at": lsn.show(self._next)})
            cursor.execute("explain (summary, format json) " + compiled.read_text())
            (((plan,),),) = cursor.fetchall()
        return float(plan["Planning Time"]) / 1000

    def _number(self, query: str) -> int:
        with transaction(self.dsn) as cursor:
            cursor.execute(query)
            ((number,),) = cursor.fetchall()
        return int(number)

    @contextmanager
    def _as_warehouse(self) -> Iterator[None]:
        """Lend the database the name that dbt parsed the models for: parsing takes seconds."""
        self._administer(f"alter database {self._name} rename to {_WAREHOUSE}")
        try:
            yield
        finally:
            self._administer(f"alter database {_WAREHOUSE} rename to {self._name}")

    def _administer(self, statement: str) -> None:
        with closing(psycopg2.connect(self._cluster.dsn("template1"))) as connection:
            connection.autocommit = True
            connection.cursor().execute(statement)

    def _fill_window(self, part: tuple[int, int]) -> None:
        start, rows = part
        values = {"slot": SLOT, "first": start, "step": self._step, "from": 0, "to": rows - 1}
        with transaction(self.dsn) as cursor:
            cursor.execute("set local synchronous_commit to off")
            cursor.execute(
                _BULK.format(partition=f"change_log_{partition_number(start):08x}"), values
            )

    def _ensure(self, positions: Iterable[int]) -> None:
        with closing(ChangeLog(self.dsn, SCHEMA, SLOT)) as log:
            for position in positions:
                log.ensure_partitions(position)
