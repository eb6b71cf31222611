"""A new baseline keeps the rows that were deleted from a table whose deletes are ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from seeding import job, store

from tests.spark.shop import EXACT, ORDERS, Groups, plus, recounted, total
from tests.spark.shop import TABLES as SHOP
from tests.spark.support import Source
from tests.spark.test_seed_refusals import a_loader
from waltally import lsn

ARCHIVED = "select commit_lsn::text, dimensions, measures from cdc.archived_delete order by 1, 2"
LATE = "FFFFFF/0"
WhenCounted = Callable[[int], object]


def purged(source: Source) -> Groups:
    """What was deleted from the archive, by group."""
    stored = recounted(source)
    gone = {
        group: [EXACT.subtract(*each) for each in zip(known, stored[group], strict=True)]
        if group in stored
        else known
        for group, known in recounted(source, "kept").items()
    }
    return nonzero(gone)


def write_down(source: Source, groups: Groups, commit_lsn: str) -> None:
    """Write the deletes down as the fact's routine does."""
    for group, measures in groups.items():
        source.execute(
            "insert into cdc.archived_delete values"
            " (%s, 'analytics.ft_orders', 'archived', %s, %s, %s)",
            source.slot,
            commit_lsn,
            list(group),
            measures,
        )


def mark(source: Source, applied_lsn: str, declaration: dict[str, Any] = ORDERS) -> None:
    """Say how far the fact is built on a baseline."""
    source.execute(
        "insert into cdc.model_watermark"
        " (model_name, slot_name, applied_lsn, baseline_id, declaration)"
        " values ('analytics.ft_orders', %s, %s, gen_random_uuid(), %s)",
        source.slot,
        applied_lsn,
        json.dumps(declaration),
    )


@pytest.fixture
def when_counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[WhenCounted], None]:
    """Do something between the counting and what follows, with the snapshot's position."""

    def register(act: WhenCounted) -> None:
        counting = job.count

        def count(*arguments: Any) -> store.Counted:
            counted = counting(*arguments)
            act(counted.snapshot_lsn)
            return counted

        monkeypatch.setattr(job, "count", count)

    return register


def said(out: str) -> dict[str, Any]:
    purged: dict[str, Any] = json.loads(out)["facts"]["ft_orders"]["purged"]
    return purged


def nonzero(groups: Groups) -> Groups:
    return {group: measures for group, measures in groups.items() if any(measures)}


def archived(groups: Groups) -> Decimal:
    return sum((measures[1] for measures in groups.values()), Decimal(0))


@pytest.fixture
def shop(source: Source) -> Iterator[Source]:
    """A shop whose tables a loader follows."""
    source.execute(SHOP)
    source.execute("delete from cdc.fact")
    source.register(ORDERS, "ft_orders")
    source.execute(
        "update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn)"
        " from cdc.slot_position"
    )
    with a_loader(source):
        yield source


def test_what_was_written_down_before_the_snapshot_stays_counted(
    shop: Source, when_counted: Callable[[WhenCounted], None]
) -> None:
    groups = purged(shop)
    some = dict(list(groups.items())[::2])
    first: list[int] = []

    def write_all(position: int) -> None:
        if not first:
            write_down(shop, groups, lsn.show(position - 20))
            write_down(shop, some, lsn.show(position - 10))
            # From the snapshot on the deletes are in the stream.
            write_down(shop, some, lsn.show(position))
            first.append(position)

    when_counted(write_all)
    mark(shop, LATE)
    code, out, err = shop.seed("--json")
    assert code == 0, err
    wanted = recounted(shop, "kept")
    for group, measures in some.items():
        wanted[group] = plus(wanted[group], measures)
    assert nonzero(total(shop.groups("ft_orders"))) == nonzero(wanted)
    rows = archived(groups) + archived(some)
    assert said(out) == {"outcome": "kept", "rows": rows, "groups": len(groups)}

    # One row a group is left. The next seed has the later ones before its snapshot too.
    kept = shop.execute(ARCHIVED)
    [position] = first
    assert {lsn.parse(at) for at, *_ in kept} == {position - 20, position - 10, position}
    assert len(kept) == len(groups) + len(some)
    later = "delete from cdc.archived_delete where commit_lsn = %s"
    shop.execute(later, lsn.show(position))
    built = (
        "update cdc.model_watermark set baseline_id = made.baseline_id from cdc.baseline as made"
    )
    shop.execute(built)
    left = shop.execute(ARCHIVED)
    assert shop.seed()[0] == 0
    assert shop.execute(ARCHIVED) == left
    assert nonzero(total(shop.groups("ft_orders"))) == nonzero(wanted)


def test_purged_rows_are_forgotten_when_asked(
    shop: Source, when_counted: Callable[[WhenCounted], None]
) -> None:
    groups = purged(shop)

    def write_all(position: int) -> None:
        write_down(shop, groups, lsn.show(position - 1))
        write_down(shop, groups, lsn.show(position))
        # Not built up to the snapshot: what is forgotten need not be known.
        mark(shop, lsn.show(position - 1))

    when_counted(write_all)
    code, out, err = shop.seed("--json", "--forget-purged")
    assert code == 0, err
    assert total(shop.groups("ft_orders")) == recounted(shop)
    assert said(out) == {
        "outcome": "forgotten",
        "rows": archived(groups),
        "groups": len(groups),
    }
    [(snapshot,)] = shop.execute("select snapshot_lsn::text from cdc.baseline")
    assert {at for at, *_ in shop.execute(ARCHIVED)} == {snapshot}


@pytest.mark.parametrize("is_built", [False, True])
def test_a_first_baseline_of_a_declaration_counts_the_stored_rows(
    shop: Source, is_built: bool
) -> None:
    write_down(shop, purged(shop), "0/1")
    if is_built:
        mark(shop, LATE, ORDERS | {"key": ["x"]})
    assert said(shop.must_seed("--json")) == {"outcome": "first", "rows": None, "groups": None}
    assert total(shop.groups("ft_orders")) == recounted(shop)
    assert shop.execute(ARCHIVED) == []


def test_a_fact_that_cannot_come_to_the_snapshot_is_refused_with_its_state(
    shop: Source, when_counted: Callable[[WhenCounted], None]
) -> None:
    [(start,)] = shop.execute("select start_lsn::text from cdc.slot_position")
    mark(shop, start)
    when_counted(
        lambda position: shop.execute(
            "update cdc.slot_position set position_lsn = %s", lsn.show(position)
        )
    )
    code, _, err = shop.seed()
    assert code == 41, err
    assert "dbt has not installed it" in err
    assert "`dbt build`; then run the seed again; --forget-purged" in err
    assert shop.execute("select 1 from cdc.baseline") == []
