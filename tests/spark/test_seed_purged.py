"""A new baseline keeps the rows that were deleted from a table whose deletes are ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from seeding import job, store

from tests.spark.declared import EXACT, ORDERS, Group, Shop, a_shop, recounted, total
from tests.spark.support import Source
from tests.spark.test_seed_refusals import a_loader
from waltally import lsn

ARCHIVED = "select commit_lsn::text, dimensions, measures from cdc.archived_delete order by 1, 2"
LATE = "FFFFFF/0"
WhenCounted = Callable[[int], object]


def purged(shop: Shop, slot: str) -> dict[Group, list[Decimal]]:
    """What was deleted from the archive, by group."""
    stored, known = recounted(shop, slot), recounted(shop, slot, "kept")
    found = {}
    for group, measures in known.items():
        zeros = [Decimal(0)] * len(measures)
        left = stored.get(group, zeros)
        gone = [EXACT.subtract(*each) for each in zip(measures, left, strict=True)]
        if any(gone):
            found[group] = gone
    return found


def write_down(source: Source, groups: dict[Group, list[Decimal]], commit_lsn: str) -> None:
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
    """Say how far the fact is built."""
    source.execute(
        "insert into cdc.model_watermark (model_name, slot_name, applied_lsn, declaration)"
        " values ('analytics.ft_orders', %s, %s, %s)",
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


def nonzero(groups: dict[Group, list[Decimal]]) -> dict[Group, list[Decimal]]:
    return {group: measures for group, measures in groups.items() if any(measures)}


def column_sum(groups: dict[Group, list[Decimal]], place: int) -> Decimal:
    return reduce(EXACT.add, (measures[place] for measures in groups.values()), Decimal(0))


@pytest.fixture
def shop(source: Source) -> Iterator[Shop]:
    """A shop whose tables a loader follows."""
    with a_shop(source) as made, a_loader(source):
        source.execute(
            "update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn)"
            " from cdc.slot_position"
        )
        yield made


def test_what_was_written_down_before_the_snapshot_stays_counted(
    source: Source, shop: Shop, when_counted: Callable[[WhenCounted], None]
) -> None:
    groups = purged(shop, source.slot)
    some = dict(list(groups.items())[::2])
    first: list[int] = []

    def write_all(position: int) -> None:
        if not first:
            write_down(source, groups, lsn.show(position - 20))
            write_down(source, some, lsn.show(position - 10))
            # From the snapshot on the deletes are in the stream.
            write_down(source, some, lsn.show(position))
            first.append(position)

    when_counted(write_all)
    mark(source, LATE)
    code, out, err = source.seed("--json")
    assert code == 0, err
    wanted = recounted(shop, source.slot, "kept")
    for group, measures in some.items():
        wanted[group] = [EXACT.add(*each) for each in zip(wanted[group], measures, strict=True)]
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(wanted)
    rows = column_sum(groups, 1) + column_sum(some, 1)
    assert said(out) == {"outcome": "kept", "rows": rows, "groups": len(groups)}

    # One row a group is left. The next seed has the later ones before its snapshot too.
    kept = source.execute(ARCHIVED)
    [position] = first
    assert {lsn.parse(at) for at, *_ in kept} == {position - 20, position - 10, position}
    assert len(kept) == len(groups) + len(some)
    later = "delete from cdc.archived_delete where commit_lsn = %s"
    source.execute(later, lsn.show(position))
    left = source.execute(ARCHIVED)
    assert source.seed()[0] == 0
    assert source.execute(ARCHIVED) == left
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(wanted)


def test_purged_rows_are_forgotten_when_asked(
    source: Source, shop: Shop, when_counted: Callable[[WhenCounted], None]
) -> None:
    groups = purged(shop, source.slot)

    def write_all(position: int) -> None:
        write_down(source, groups, lsn.show(position - 1))
        write_down(source, groups, lsn.show(position))
        # Not built up to the snapshot: what is forgotten need not be known.
        mark(source, lsn.show(position - 1))

    when_counted(write_all)
    code, out, err = source.seed("--json", "--forget-purged")
    assert code == 0, err
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)
    assert said(out) == {
        "outcome": "forgotten",
        "rows": column_sum(groups, 1),
        "groups": len(groups),
    }
    [(snapshot,)] = source.execute("select snapshot_lsn::text from cdc.baseline")
    assert {at for at, *_ in source.execute(ARCHIVED)} == {snapshot}


@pytest.mark.parametrize("built", ["never", "otherwise"])
def test_a_fact_that_is_not_built_as_it_is_declared_remembers_nothing(
    source: Source, shop: Shop, built: str
) -> None:
    write_down(source, purged(shop, source.slot), "0/1")
    if built == "otherwise":
        mark(source, LATE, ORDERS | {"key": ["x"]})
    code, out, err = source.seed("--json")
    assert code == 0, err
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)
    unknown = {"outcome": "unknown", "rows": None, "groups": None}
    nothing = {"outcome": "kept", "rows": 0, "groups": 0}
    assert said(out) == (unknown if built == "otherwise" else nothing)


def test_a_fact_that_cannot_come_to_the_snapshot_is_refused_with_its_state(
    source: Source, shop: Shop, when_counted: Callable[[WhenCounted], None]
) -> None:
    [(start,)] = source.execute("select start_lsn::text from cdc.slot_position")
    mark(source, start)
    when_counted(
        lambda position: source.execute(
            "update cdc.slot_position set position_lsn = %s", lsn.show(position)
        )
    )
    code, _, err = source.seed()
    assert code == 41, err
    assert "dbt has not installed it" in err
    assert "`dbt build`; then run the seed again; --forget-purged" in err
    assert source.execute("select 1 from cdc.baseline") == []
