"""A database with a change log and a fact of a chosen size, made by SQL."""

from __future__ import annotations

import os
import time
from contextlib import closing

import psycopg2

from benchmarks import workload
from benchmarks.measure import run, server_cpu
from demo.cluster import Cluster
from demo.source import transaction
from loader.applying.applier import apply_once
from loader.staging.change_log import ChangeLog
from waltally import lsn
from waltally.settings import Settings

SLOT = "growth"
_SCHEMA = "cdc"

_PARTITION_BITS = 32
"""A log that begins as far below as the slot's own has partitions of 4 GiB."""
_FIRST = 16 << _PARTITION_BITS
"""Where the log begins; the server's own WAL is far below."""
_STEP = 1300
"""Bytes of the source's WAL between two commits."""

# Groups with neighbouring numbers are not neighbours in the fact's indexes: ids are random.
_GROUPS = """
create function public.group_at(
    g bigint, out service_id uuid, out template_id uuid, out type text, out status text
) language sql immutable parallel safe as $$
    select md5('service ' || g / 500)::uuid, md5('template ' || g)::uuid, 'email', 'sent'
$$
"""
_CHANGES = """
insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, action, payload)
select
    %(slot)s, '0/0'::pg_lsn + (%(first)s + n::bigint * %(step)s), 1, n, now(), 'I',
    format(%(payload)s, g.service_id, g.template_id, g.type, g.status)
from generate_series(0, %(changes)s - 1) as n
cross join lateral public.group_at(n %% %(touched)s * (%(groups)s / %(touched)s)) as g
"""
_APPLIED = '{"action":"I","schema":"public","table":"notifications"}'
"""A short payload, because no build reads it again."""
_INSERT = (
    '{"action":"I","schema":"public","table":"notifications","columns":['
    '{"name":"service_id","value":"%1$s"},{"name":"template_id","value":"%2$s"},'
    '{"name":"notification_type","value":"%3$s"},{"name":"notification_status","value":"%4$s"},'
    '{"name":"personalisation","value":"' + "x" * 800 + '"}]}'
)
"""An insert of 1 KB as wal2json sends it."""
_MOVE = "update cdc.slot_position set position_lsn = %s where slot_name = %s"
_BASELINE = """
insert into cdc.baseline_group (slot_name, fact_name, part, dimensions, measures)
select
    %(slot)s,
    'ft_service_stats',
    'live',
    array[named.service_id::text, named.template_id::text, named.type, named.status],
    '{1, 0}'
from generate_series(0, %(groups)s - 1) as g
cross join lateral public.group_at(g) as named;
insert into cdc.baseline (
    slot_name, fact_name, baseline_id, declaration, snapshot_lsn, system_identifier
)
select slot_name, fact_name, gen_random_uuid(), declaration, position_lsn, system_identifier
from cdc.slot_position
inner join cdc.fact using (slot_name)
"""
_FOLLOWED = """
update cdc.logged_table set held_since = '{"*": "0/0"}'
"""
"""As the loader notes it; here the log is made by SQL."""
_COUNTED = """
select
    (select count(*) from analytics.ft_service_stats),
    (select sum(count) from analytics.ft_service_stats),
    (select count(*) from analytics.rejected_changes)
"""


class Warehouse:
    """A database with a change log and a fact of these sizes, and the models that build on it."""

    def __init__(self, cluster: Cluster, rows: int, groups: int, partitions: int) -> None:
        """Copy the database `postgres` after `prepare`, and fill the log and the fact."""
        self._cluster = cluster
        self._name = f"size_{time.monotonic_ns()}"
        self._dsn = cluster.dsn(self._name)
        self._groups, self._counted = groups, groups
        self._administer(f"create database {self._name} template postgres")
        for number in range(partitions):
            self._next = _FIRST + (number << _PARTITION_BITS)
            self._append(rows // partitions, _APPLIED, 1)
        with transaction(self._dsn) as cursor:
            cursor.execute(_BASELINE, {"slot": SLOT, "groups": groups})

    def stage(self, changes: int, touched: int) -> None:
        """Stage inserts, each a transaction, into so many groups from all over the fact."""
        self._append(changes, _INSERT, min(touched, self._groups))
        self._counted += changes

    def install(self) -> None:
        """Have dbt install the models, which fills them with the baseline."""
        settings = {
            **os.environ,
            **self._cluster.environment(self._name),
            "LOADER_SLOT": SLOT,
        }
        run([workload.BIN / "dbt", "run", "--quiet", "--select", *workload.MODELS], settings, {})

    def build(self) -> tuple[float, float]:
        """Apply what is staged; return the seconds and the CPU seconds of the server."""
        settings = Settings.of(self._dsn, self._dsn, SLOT, _SCHEMA)
        cpu, began = server_cpu(self._cluster), time.monotonic()
        apply_once(settings)
        seconds = time.monotonic() - began
        return seconds, server_cpu(self._cluster) - cpu

    def vacuum(self) -> None:
        """Vacuum and analyze everything; autovacuum is off."""
        with closing(psycopg2.connect(self._dsn)) as connection:
            connection.autocommit = True  # vacuum refuses a transaction
            connection.cursor().execute("vacuum (analyze)")

    def check(self) -> None:
        """Raise RuntimeError unless the fact holds the baseline and every staged change."""
        with transaction(self._dsn) as cursor:
            cursor.execute(_COUNTED)
            found = cursor.fetchone()
        if found != (expected := (self._groups, self._counted, 0)):
            raise RuntimeError(f"groups, rows, rejected changes: {found}, not {expected}")

    def _append(self, changes: int, payload: str, touched: int) -> None:
        first, self._next = self._next, self._next + changes * _STEP
        with closing(ChangeLog(self._dsn, _SCHEMA, SLOT)) as log:
            log.ensure_partitions(first)
            log.ensure_partitions(self._next)
        values = {"slot": SLOT, "first": first, "step": _STEP, "payload": payload}
        values |= {"changes": changes, "touched": touched, "groups": self._groups}
        with transaction(self._dsn) as cursor:
            cursor.execute("set local synchronous_commit to off")
            cursor.execute(_CHANGES, values)
            cursor.execute(_MOVE, (lsn.show(self._next), SLOT))

    def _administer(self, statement: str) -> None:
        with closing(psycopg2.connect(self._cluster.dsn("template1"))) as connection:
            connection.autocommit = True
            connection.cursor().execute(statement)


def prepare(cluster: Cluster) -> None:
    """Make the staging schema in the database `postgres`, which every warehouse is a copy of."""
    workload.create(cluster)
    workload.set_up(cluster, cluster, SLOT)
    with transaction(cluster.dsn()) as cursor:
        cursor.execute(_GROUPS)
        cursor.execute(_FOLLOWED)
        # The logs are made by SQL; the slot would only hold back their WAL.
        cursor.execute("select pg_drop_replication_slot(%s)", (SLOT,))
