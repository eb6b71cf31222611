"""The recount: the counts of the source's tables, and where the fact differs from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psycopg2 import sql

from testkit.comparison import staged_transactions
from testkit.source import transaction

Group = tuple[str, str, str, str]
"""Service, template, type and status of one row of the fact."""

Counts = dict[Group, tuple[int, int]]
"""Live and archived rows of each group; groups with (0, 0) are left out."""

_ROWS = """
select 'live' as part, service_id, template_id, notification_type, notification_status
from notifications
union all
select 'archived', service_id, template_id, notification_type, notification_status
from notification_history
"""

_PURGED = """
union all
select 'archived', service_id, template_id, notification_type, notification_status
from truth.purged
where %(purges)s::bigint[] is null or xid = any(%(purges)s::bigint[])
"""

# One statement, so one snapshot.
_COUNT = """
select
    service_id::text,
    template_id::text,
    notification_type::text,
    notification_status,
    count(*) filter (where part = 'live'),
    count(*) filter (where part = 'archived')
from ({rows}) as rows_of_both
where num_nulls(service_id, template_id, notification_type, notification_status) = 0
group by 1, 2, 3, 4
"""

_FACT = """
select
    service_id::text,
    template_id::text,
    notification_type,
    notification_status,
    live_count,
    archived_count,
    "count"
from {schema}.ft_service_stats
"""


class Row(NamedTuple):
    """One group's numbers; `total` is the fact's `count`, which is never below zero."""

    live: int
    archived: int
    total: int


class Difference(NamedTuple):
    """A group whose fact and recount differ; None where the group is missing."""

    group: Group
    expected: Row | None
    actual: Row | None


def expected(dsn: str, purges: Sequence[int] | None = None) -> Counts:
    """Count the source's tables, and the rows that were purged from the archive.

    `purges` are the transaction ids whose purges count: a seed does not see what was purged before
    it. None means every purge since `source.create`. Rows that lack a dimension are left out.
    """
    with transaction(dsn) as cursor:
        cursor.execute("select to_regclass('truth.purged') is not null")
        rows = _ROWS + _PURGED if cursor.fetchall() == [(True,)] else _ROWS
        cursor.execute(
            _COUNT.format(rows=rows), {"purges": None if purges is None else list(purges)}
        )
        return {(row[0], row[1], row[2], row[3]): (row[4], row[5]) for row in cursor}


def fact(dsn: str, schema: str = "analytics") -> Counts:
    """Read `ft_service_stats`; groups with neither live nor archived rows are left out."""
    return {
        group: (row.live, row.archived)
        for group, row in _fact_rows(dsn, schema).items()
        if row.live or row.archived
    }


def differences(
    dsn: str,
    target: str | None = None,
    schema: str = "analytics",
    staging: str = "cdc",
    slot: str = "waltally",
    every_purge: bool = False,
) -> list[Difference]:
    """Compare the fact with the recount, group by group; an empty list means exact.

    A fact remembers what was purged since its first seed. With `every_purge` it was there before
    the first purge, so it remembers all of them, whatever was seeded or pruned since.

    `target` is where the fact and the staging schema live, if not beside the source. Meaningful
    once the source is quiet, the fact has applied everything, and it stands on the newest seed. A
    group that the fact keeps with all zeros is no difference.
    """
    purges = None
    if not every_purge:
        purges = staged_transactions(target or dsn, slot, "ft_service_stats", staging)
    wanted = {
        group: Row(live, archived, max(live + archived, 0))
        for group, (live, archived) in expected(dsn, purges).items()
    }
    found = {group: row for group, row in _fact_rows(target or dsn, schema).items() if any(row)}
    return [
        Difference(group, wanted.get(group), found.get(group))
        for group in sorted(wanted.keys() | found.keys())
        if wanted.get(group) != found.get(group)
    ]


def _fact_rows(dsn: str, schema: str) -> dict[Group, Row]:
    with transaction(dsn) as cursor:
        cursor.execute(sql.SQL(_FACT).format(schema=sql.Identifier(schema)))
        return {(row[0], row[1], row[2], row[3]): Row(row[4], row[5], row[6]) for row in cursor}
