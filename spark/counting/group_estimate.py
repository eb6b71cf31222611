"""Whether rows of a range have few groups, from a sample of the table's pages.

The statistics of PostgreSQL have the number of values of each column, but not of their
combinations: 1,000 services with 4,000 templates may be 4,000 groups or 4,000,000. A sample tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from common.arrow_source import LOCK_TIMEOUT
from common.connections import Connection

from counting.columns import Selection
from counting.ranges import Leaf
from counting.values import ROW_COUNT

SAMPLED_PAGES = 300
ROWS_PER_GROUP = 10
MAX_GROUPS = 100_000
"""Up to here grouping costs the server less than sending the rows, and takes some 20 MB."""


@dataclass(frozen=True)
class Estimate:
    """The rows of a range and the groups that they have."""

    rows: float
    groups: float

    @property
    def are_few(self) -> bool:
        """Whether the server should count."""
        return self.groups <= min(self.rows / ROWS_PER_GROUP, MAX_GROUPS)


def estimate(connection: Connection, leaf: Leaf, pages: int, groups: Selection) -> Estimate | None:
    """Return what ranges of so many pages have; None where the table is locked.

    A lock that waits for the seed's own would make the sample wait for ever: it gives up instead.
    """
    if not leaf.has_addresses:
        return None
    percent = min(100 * SAMPLED_PAGES / max(leaf.pages, 1), 100)
    share = min(SAMPLED_PAGES / max(min(pages, leaf.pages), 1), 1.0)
    source = f"from only {leaf.table.quoted} tablesample system ({percent}) repeatable (1)"
    try:
        with connection.transaction():
            connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            row = connection.execute(sample(source, groups).encode()).fetchone()
    except psycopg.errors.LockNotAvailable:
        return None
    assert row is not None
    rows, found, pairs, singles = (int(str(number)) for number in row)
    return judge(rows, found, pairs, singles, share)


def sample(source: str, groups: Selection) -> str:
    """Return the query of what `judge` needs of a sample."""
    names = ", ".join(f"key_{place}" for place in range(groups.keys))
    places = ", ".join(str(place + 1) for place in range(groups.keys + 1))
    return (
        "select coalesce(sum(row_count), 0), count(*), coalesce(sum(pages), 0),"
        " count(*) filter (where pages = 1) from ("
        f"select sum({ROW_COUNT}) as row_count, count(*) as pages from ("
        f"select (ctid::text::point)[0] as page, {groups.grouped} {source} group by {places}"
        f") as on_pages group by {names}) as sampled"
    )


def judge(rows: int, groups: int, pairs: int, singles: int, share: float) -> Estimate:
    """Return what a range has of which this share was sampled.

    `pairs` of a group and a page were found, and `singles` groups on one page alone. This is how
    ANALYZE estimates distinct values (the Duj1 estimator of Haas and Stokes), of pairs instead of
    rows: rows of one page are often alike, and would hide that every page has other groups.
    """
    unseen = singles / pairs * (1 - share) if pairs else 0.0
    return Estimate(rows / share, groups / (1 - unseen))
