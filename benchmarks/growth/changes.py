"""What one change costs, by its kind and the replica identity: bytes, and CPU seconds of each part.

Real changes through a real slot: written at a source, staged by `loader run --once` at another
server, applied by one build. What an empty run and an empty build take is taken off, so that the
rest is what each change adds. Inserts and updates are transactions of one row, as an application's
are; the archive's inserts and the deletes are one large transaction, as Notify's nightly job is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import astuple, dataclass
from statistics import median

import psycopg2

from benchmarks import measure, workload
from benchmarks.growth.build import SLOT, Build, settings, timed_build
from demo import source
from demo.cluster import Cluster
from demo.source import Identity, transaction
from loader.build.builder import Models

IDENTITIES: tuple[Identity, ...] = ("full", "covering")

# The text is random, so that the log's compression finds in it no more than in a real one.
_WRITE = {
    "insert": """
do $$ begin
    for i in 1..{rows} loop
        insert into notifications (
            "to", service_id, template_id, notification_type, notification_status, personalisation
        )
        select 'someone@example.com', service_id, id, template_type, 'created', (
            select string_agg(md5(random()::text || i), '') from generate_series(1, 10)
        )
        from templates order by id offset i % 50 limit 1;
        commit;
    end loop;
end $$
""",
    "update": """
do $$ declare one uuid; begin
    for one in select id from notifications loop
        update notifications set notification_status = 'delivered', updated_at = now()
        where id = one;
        commit;
    end loop;
end $$
""",
    "archive": """
insert into notification_history (
    id, service_id, template_id, notification_type, notification_status, created_at, updated_at
)
select
    id, service_id, template_id, notification_type, notification_status, created_at, updated_at
from notifications
""",
    "delete": "delete from notifications",
}
KINDS = tuple(_WRITE)

_SIZE = """
select
    count(*), coalesce(sum(octet_length(payload)), 0), (
        select coalesce(sum(pg_table_size(relid)), 0)
        from pg_partition_tree('cdc.change_log') where isleaf
    ), (
        select coalesce(sum(pg_indexes_size(relid)), 0)
        from pg_partition_tree('cdc.change_log') where isleaf
    ), pg_current_wal_insert_lsn() - '0/0'
from cdc.change_log
"""
_TRUTH = "select (select count(*) from notifications), (select count(*) from notification_history)"
_FACT = "select sum(live_count), sum(archived_count) from analytics.ft_service_stats"
_PLACEHOLDERS = ("service_id", "template_id", "notification_type", "notification_status")


@dataclass(frozen=True)
class PerChange:
    """What one change costs on average."""

    payload: float
    """Bytes of JSON."""
    heap: float
    """Bytes of the change log's tables, out-of-line values included."""
    index: float
    """Bytes of the change log's indexes."""
    source_wal: float
    """Bytes of WAL that writing it made at the source."""
    staging_wal: float
    """Bytes of WAL that storing it made at the target."""
    decode: float
    """CPU seconds of the source's server, for the slot."""
    loader: float
    """CPU seconds of the loader."""
    copy: float
    """CPU seconds of the target's server, for storing."""
    apply: float
    """CPU seconds of the target's server, for the build."""


CPU = ("decode", "loader", "copy", "apply")
"""The fields of PerChange that are CPU seconds."""

Costs = Mapping[tuple[Identity, str], PerChange]


class Pipeline:
    """A source, a target, and the slot between them."""

    def __init__(self, primary: Cluster, warehouse: Cluster, models: Models, rows: int) -> None:
        """Make tables, slot and fact; each stage writes `rows` changes."""
        self._primary, self._warehouse, self._models = primary, warehouse, models
        self._rows = rows
        workload.create(primary)
        workload.set_up(primary, warehouse, SLOT)
        self._stage()
        self.build()

    def costs(self, rounds: int, say: Callable[[str], None]) -> tuple[Costs, Build]:
        """Return each kind's costs under each identity, and an empty build's; medians.

        Raises RuntimeError where the log or the fact does not hold what was written.
        """
        found: dict[tuple[Identity, str], list[PerChange]] = {}
        idle_builds = []
        for number in range(rounds):
            for identity in IDENTITIES:
                self._set_identity(identity)
                idle_run = sorted((self._stage() for _ in range(3)), key=_program)[1]
                idle_build = sorted((self.build() for _ in range(3)), key=_server)[1]
                idle_builds.append(idle_build)
                for kind in KINDS:
                    one = self._cost(kind, idle_run, idle_build)
                    found.setdefault((identity, kind), []).append(one)
                self._check()
                say(f"costs of a change: round {number + 1}, identity {identity}")
        medians = {
            key: PerChange(*map(median, zip(*map(astuple, costs), strict=True)))
            for key, costs in found.items()
        }
        return medians, Build(*map(median, zip(*map(astuple, idle_builds), strict=True)))

    def build(self) -> Build:
        """Apply what is staged."""
        return timed_build(self._warehouse, self._models, settings(self._warehouse))

    def insert_form(self) -> str:
        """Return an insert's payload for SQL's `format`: %1$s to %4$s are the dimensions."""
        with transaction(self._warehouse.dsn()) as cursor:
            cursor.execute(
                "select payload from cdc.change_log where action = 'I' order by commit_lsn limit 1"
            )
            ((payload,),) = cursor.fetchall()
        form = str(payload).replace("%", "%%")
        for place, name in enumerate(_PLACEHOLDERS, 1):
            pattern = rf'("name":"{name}","value":)"[^"]*"'
            form, found = re.subn(pattern, rf'\g<1>"%{place}$s"', form)
            if found != 1:
                raise RuntimeError(f"the payload names {name} {found} times")
        return form

    def _cost(self, kind: str, idle_run: measure.Cost, idle_build: Build) -> PerChange:
        wal = self._source_wal()
        with closing(psycopg2.connect(self._primary.dsn())) as connection:
            connection.autocommit = True  # so that the DO blocks may commit
            with connection.cursor() as cursor:
                cursor.execute("set synchronous_commit to off")
                cursor.execute("set session_replication_role to replica")
                cursor.execute(_WRITE[kind].format(rows=self._rows))
        wal = self._source_wal() - wal
        before = self._sizes()
        run = self._stage()
        rows, *grown = (now - then for now, then in zip(self._sizes(), before, strict=True))
        if rows != self._rows:
            raise RuntimeError(f"{rows} changes are staged after {self._rows} writes ({kind})")
        build = self.build()
        totals = (
            *grown[:3],
            wal,
            grown[3],
            run.servers["source"] - idle_run.servers["source"],
            run.program - idle_run.program,
            run.servers["target"] - idle_run.servers["target"],
            build.server - idle_build.server,
        )
        return PerChange(*(total / self._rows for total in totals))

    def _stage(self) -> measure.Cost:
        return measure.run(
            [workload.LOADER, "run", "--once"],
            workload.environment(self._primary, self._warehouse, SLOT),
            {"source": self._primary, "target": self._warehouse},
        )

    def _set_identity(self, identity: Identity) -> None:
        source.set_identity(self._primary.dsn(), "full")
        if identity == "covering":
            with transaction(self._primary.dsn()) as cursor:
                for table in source.TABLES:
                    cursor.execute(f"drop index if exists {table}_identity")
            source.set_identity(self._primary.dsn(), identity)

    def _source_wal(self) -> int:
        with transaction(self._primary.dsn()) as cursor:
            cursor.execute("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
            ((end,),) = cursor.fetchall()
        return int(end)

    def _sizes(self) -> list[int]:
        with transaction(self._warehouse.dsn()) as cursor:
            cursor.execute(_SIZE)
            (sizes,) = cursor.fetchall()
        return [int(size) for size in sizes]

    def _check(self) -> None:
        with transaction(self._primary.dsn()) as cursor:
            cursor.execute(_TRUTH)
            truth = cursor.fetchone()
        with transaction(self._warehouse.dsn()) as cursor:
            cursor.execute(_FACT)
            fact = cursor.fetchone()
        if truth != fact:
            raise RuntimeError(f"the fact counts {fact}, the source's tables hold {truth}")


def _program(cost: measure.Cost) -> float:
    return cost.program


def _server(build: Build) -> float:
    return build.server
