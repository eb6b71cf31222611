"""Notify's recount: the counts of its tables, and where `ft_service_stats` differs from them."""

from __future__ import annotations

from collections.abc import Sequence

from testkit.comparison import (
    Difference,
    Recount,
    Row,
    compare,
    read_model,
    read_rows,
    staged_transactions,
)
from testkit.source import DIMENSIONS, transaction

Counts = dict[Row, tuple[int, int]]
"""Live and archived rows of each group; groups with (0, 0) are left out."""

_COLUMNS = ", ".join(DIMENSIONS)
_PURGED = f"""
    union all
    select 'archived', {_COLUMNS} from truth.purged
    where %(purges)s::bigint[] is null or xid = any(%(purges)s::bigint[])
"""
_COUNT = f"""
with rows as (
    select 'live' as part, {_COLUMNS} from notifications
    union all
    select 'archived', {_COLUMNS} from notification_history
    {{purged}}
)

select
    {_COLUMNS},
    count(*) filter (where part = 'live'),
    count(*) filter (where part = 'archived'),
    count(*)
from rows
group by {_COLUMNS}
"""


def expected(dsn: str, purges: Sequence[int] | None = None) -> Counts:
    """Count the source's tables, and the rows that were purged from the archive.

    `purges` are the transaction ids whose purges count: a seed does not see what was purged before
    it. None means every purge since `source.create`.
    """
    return _parts(_count(dsn, purges))


def model(dsn: str) -> Counts:
    """Read `ft_service_stats`; groups with neither live nor archived rows are left out."""
    return _parts(read_model(dsn, _recount("")))


def differences(
    dsn: str,
    target: str | None = None,
    slot: str = "waltally",
    every_purge: bool = False,
) -> list[Difference]:
    """Compare the model with the recount, group by group; an empty list means exact.

    A model remembers what was purged since its first seed. With `every_purge` it was there before
    the first purge, so it remembers all of them, whatever was seeded or pruned since.

    `target` is where the model and the staging schema live, if not beside the source. Meaningful
    once the source is quiet, the model has applied everything, and it stands on the newest seed. A
    group that the model keeps with all zeros is no difference.
    """
    purges = None
    if not every_purge:
        purges = staged_transactions(target or dsn, slot, "ft_service_stats")
    recount = _recount("")
    return compare(recount, _count(dsn, purges), read_model(target or dsn, recount))


def _recount(query: str) -> Recount:
    values = ("live_count", "archived_count", "count")
    return Recount("ft_service_stats", keys=DIMENSIONS, values=values, query=query)


def _count(dsn: str, purges: Sequence[int] | None) -> dict[Row, Row]:
    with transaction(dsn) as cursor:
        cursor.execute("select to_regclass('truth.purged') is not null")
        purged = _PURGED if cursor.fetchall() == [(True,)] else ""
    recount = _recount(_COUNT.format(purged=purged))
    parameters = {"purges": None if purges is None else list(purges)}
    return read_rows(dsn, recount, parameters)


def _parts(rows: dict[Row, Row]) -> Counts:
    return {
        group: (live, archived) for group, (live, archived, _) in rows.items() if live or archived
    }
