"""The two tables that are counted: their rows, and what the server itself counts."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg2

from benchmarks import workload
from benchmarks.seed.contenders import SLOT
from testkit import source
from testkit.servers import Cluster
from testkit.source import DIMENSIONS

STATUSES = ("created", "sending", "delivered", "temporary-failure", "permanent-failure")
LIVE_SHARE = 10
"""One row in so many is live, the rest is history."""

# 1000003 is a prime, so that neighbours in the table belong to different groups.
_INSERT = """
insert into {table} (
    id, {more_columns} service_id, template_id, notification_type, notification_status,
    created_at, reference
)
select
    lpad(to_hex(n), 32, '0')::uuid, {more_values} t.service_id, t.id, t.template_type,
    (%(statuses)s)[1 + g / %(templates)s],
    timestamp '2026-01-01' + n * interval '1 second', 'reference ' || n
from generate_series(%(first)s::bigint, %(last)s) as n
cross join lateral (select n * 1000003 %% %(groups)s as g) as spread
inner join (
    select row_number() over (order by id) - 1 as place, * from templates
) as t on t.place = g %% %(templates)s
"""

_CHECKSUM = """
select count(*), sum(row_count), sum(hashtextextended(concat_ws('|',
    source_table, service_id, template_id, notification_type, notification_status,
    row_count), 0)::numeric)
from {counts}
"""

Counted = tuple[object, ...]
"""Groups, rows, and a sum of hashes of every group with its count."""


def create(primary: Cluster, warehouse: Cluster, groups: int) -> None:
    """Make empty tables, what they refer to, and the staging schema of the slot."""
    templates = max(groups // len(STATUSES), 1)
    source.create(primary.dsn())
    source.fill(primary.dsn(), services=min(1000, templates), templates=templates)
    source.set_identity(primary.dsn(), "full")
    workload.set_up(primary, warehouse, SLOT)
    with source.transaction(primary.dsn()) as cursor:
        # The seed needs the slot's row only; the slot would hold the whole fill's WAL.
        cursor.execute("select pg_drop_replication_slot(%s)", (SLOT,))


def fill(primary: Cluster, rows: int, groups: int) -> None:
    """Fill the tables, then vacuum and checkpoint."""
    templates = max(groups // len(STATUSES), 1)
    values = {
        "groups": templates * len(STATUSES),
        "templates": templates,
        "statuses": list(STATUSES),
    }
    parts: list[tuple[str, Mapping[str, object]]] = []
    live = rows // LIVE_SHARE
    for table, columns, texts, count in (
        ("notifications", '"to",', "'someone@example.com',", live),
        ("notification_history", "", "", rows - live),
    ):
        statement = _INSERT.format(table=table, more_columns=columns, more_values=texts)
        for after, upto in ((0, count // 2), (count // 2, count)):
            parts.append((statement, {**values, "first": after + 1, "last": upto}))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(_insert, primary), *zip(*parts, strict=True)))
    with closing(psycopg2.connect(primary.dsn())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in (
                *(f"vacuum (analyze) {name}" for name in source.TABLES),
                "checkpoint",
            ):
                cursor.execute(statement)


def _insert(primary: Cluster, statement: str, values: Mapping[str, object]) -> None:
    with source.transaction(primary.dsn()) as cursor:
        cursor.execute("set session_replication_role to replica")
        cursor.execute("set synchronous_commit to off")
        cursor.execute(statement, values)


def count_on_server(primary: Cluster) -> Counted:
    """Count on the primary by SQL."""
    columns = ", ".join(DIMENSIONS)
    counts = " union all ".join(
        f"select 'public.{table}' as source_table, {columns}, count(*) as row_count"
        f" from {table} group by {columns}"
        for table in source.TABLES
    )
    return checksum(primary, f"({counts}) as counted")


def checksum(cluster: Cluster, counts: str) -> Counted:
    """Return the checksum of counts: a table, or a query in brackets with an alias."""
    with source.transaction(cluster.dsn()) as cursor:
        cursor.execute(_CHECKSUM.format(counts=counts))
        (found,) = cursor.fetchall()
    return found
