"""Groups of the server are the rows that it would have sent, and it groups where they are few."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from counting import grouping, reading
from counting.grouping import judge
from waltally_jobs.evaluation import places, ranges
from waltally_jobs.evaluation.places import Estimate

from testkit.commands import wait_until
from testkit.facts import declare, notify
from tests.spark.support import Source, exported, job_settings
from waltally.errors import LoaderError
from waltally.facts import parse
from waltally.tables import Table


@pytest.mark.parametrize(
    ("group", "is_grouped"),
    [
        ("n / 50", True),
        # Rows of a page are alike, but each page has groups of its own.
        ("n / 8", False),
        ("n % 10000", False),
    ],
)
def test_the_server_counts_where_a_sample_shows_few_groups(
    source: Source, group: str, is_grouped: bool
) -> None:
    source.execute(
        "create table spread (a integer, b integer, filler text);"
        f"insert into spread select ({group}) % 20, ({group}) / 20, repeat('x', 200)"
        " from generate_series(0, 39999) as n"
    )
    fact = parse(
        "ft_spread",
        Table("analytics", "ft_spread"),
        declare("public.spread", ("a", "integer"), ("b", "integer")),
    )
    with exported(source, fact) as held:
        [(table, leaves)] = held.found
        assert leaves[0].pages > 3 * places.SAMPLED_PAGES
        counting, *_ = reading.select(held, job_settings(source), [fact], table, leaves)
    assert counting.is_grouped == is_grouped


def test_a_table_that_another_session_waits_for_is_not_sampled(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "LOCK_TIMEOUT", "100ms")
    source.fill(services=1, templates=1, rows=400)
    facts = [notify()]
    with exported(source) as held, source.session() as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.ask, "truncate notifications")
        wait_until(lambda: source.waiting("relation"))
        found = [
            reading.select(held, job_settings(source), facts, table, leaves)[0].is_grouped
            for table, leaves in held.found
        ]
        other.cancel()
        with pytest.raises(LoaderError, match="canceling statement"):
            waiting.result()
    assert found == [False, True]


def test_what_a_sample_says_of_a_range() -> None:
    # Half of a range: what was seen twice will be seen again, the rest is as new as half of it.
    assert judge(1000, 100, 500, 0, 0.5) == Estimate(2000, 100)
    assert judge(1000, 100, 100, 100, 0.5) == Estimate(2000, 200)
    assert judge(0, 0, 0, 0, 1.0).are_few
    assert not Estimate(1e9, places.MAX_GROUPS + 1).are_few


@pytest.mark.parametrize("estimate", [None, Estimate(1e9, 1)])
def test_small_partitions_are_counted_by_few_tasks(
    source: Source, monkeypatch: pytest.MonkeyPatch, estimate: Estimate | None
) -> None:
    """Row by row, and where the server counts: as many tasks took a third of a second each."""
    monkeypatch.setattr(grouping, "estimate", lambda *_: estimate)
    source.execute(
        "alter table notifications rename to former;"
        "create table notifications (like former including defaults) partition by hash (id)"
    )
    for number in range(130):
        source.execute(
            f"create table leaf_{number} partition of notifications"
            f" for values with (modulus 130, remainder {number})"
        )
    source.fill()
    source.must_seed()
    assert source.baseline() == source.recount()
    with exported(source) as held:
        (_, leaves), _ = held.found
        assert len(leaves) == 130
        assert len(ranges.plan(leaves, ranges.PAGES_PER_RANGE, str)) == 3
