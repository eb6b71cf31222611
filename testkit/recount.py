"""Notify's recount: the counts of its tables, and where `ft_service_stats` differs from them."""

from __future__ import annotations

from testkit import comparison
from testkit.comparison import Difference, Recount, Row, read_model, read_rows
from testkit.source import DIMENSIONS

Counts = dict[Row, tuple[int, int]]
"""Live and archived rows of each group; groups with (0, 0) are left out."""

_COLUMNS = ", ".join(DIMENSIONS)


def _recount(purged: str = "") -> Recount:
    """Return the recount, with what counts of the rows that were purged from the archive."""
    return Recount(
        "ft_service_stats",
        keys=DIMENSIONS,
        values=("live_count", "archived_count", "count"),
        query=f"""
            with rows as (
                select 'live' as part, {_COLUMNS} from notifications
                union all
                select 'archived', {_COLUMNS} from notification_history
                {purged and f"union all select 'archived', {_COLUMNS} from truth.purged {purged}"}
            )
            select
                {_COLUMNS},
                count(*) filter (where part = 'live'),
                count(*) filter (where part = 'archived'),
                count(*)
            from rows
            group by {_COLUMNS}
        """,
    )


def expected(dsn: str) -> Counts:
    """Count the rows of the source's tables."""
    return _parts(read_rows(dsn, _recount(), {}))


def model(dsn: str) -> Counts:
    """Read `ft_service_stats`; groups with neither live nor archived rows are left out."""
    return _parts(read_model(dsn, _recount()))


def differences(
    dsn: str, target: str | None = None, slot: str = "waltally", every_purge: bool = False
) -> list[Difference]:
    """Compare the model with the recount, group by group; an empty list means exact.

    A model remembers what was purged since its first seed. With `every_purge` it was there before
    the first purge, so it remembers all of them, whatever was seeded or pruned since.

    `target` is where the model and the staging schema live, if not beside the source. Meaningful
    once the source is quiet, the model has applied everything, and it stands on the newest seed. A
    group that the model keeps with all zeros is no difference.
    """
    purged = ""
    if comparison.ask(dsn, "select where to_regclass('truth.purged') is not null"):
        purged = "where true" if every_purge else "where xid = any(%(purges)s::bigint[])"
    return comparison.differences(_recount(purged), {slot: dsn}, target or dsn)


def _parts(rows: dict[Row, Row]) -> Counts:
    return {
        group: (live, archived) for group, (live, archived, _) in rows.items() if live or archived
    }
