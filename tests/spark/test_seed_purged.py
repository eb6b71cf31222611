"""A new baseline keeps the rows that were deleted from a table whose deletes are ignored."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests.spark.declared import ORDERS, Shop
from tests.spark.support import Source
from tests.spark.test_seed_declared import EXACT, Group, a_shop, export, recounted, total
from waltally import lsn

ARCHIVED = "select commit_lsn::text, dimensions, measures from cdc.archived_delete order by 1, 2"


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
    with source.connect() as connection:
        for group, measures in groups.items():
            connection.execute(
                "insert into cdc.archived_delete values"
                " (%s, 'analytics.ft_orders', 'archived', %s, %s, %s)",
                (source.slot, commit_lsn, list(group), measures),
            )


def mark(source: Source, applied_lsn: str, declaration: dict[str, Any] = ORDERS) -> None:
    """Say how far the fact is built."""
    source.ask(
        "insert into cdc.model_watermark (model_name, slot_name, applied_lsn, declaration)"
        " values ('analytics.ft_orders', %s, %s, %s) returning 1",
        source.slot,
        applied_lsn,
        json.dumps(declaration),
    )


def seed(source: Source, folder: Path, position: str, *flags: str) -> tuple[int, str, str]:
    """Seed from the export; nobody needs to follow the slot then."""
    source.ask("update cdc.slot_position set position_lsn = %s returning 1", position)
    return source.seed("--parquet", str(folder), "--snapshot-lsn", position, "--json", *flags)


def said(out: str) -> dict[str, Any]:
    purged: dict[str, Any] = json.loads(out)["facts"]["ft_orders"]["purged"]
    return purged


def nonzero(groups: dict[Group, list[Decimal]]) -> dict[Group, list[Decimal]]:
    return {group: measures for group, measures in groups.items() if any(measures)}


def column_sum(groups: dict[Group, list[Decimal]], place: int) -> Decimal:
    return reduce(EXACT.add, (measures[place] for measures in groups.values()), Decimal(0))


@pytest.fixture
def shop(source: Source) -> Any:
    with a_shop(source) as made:
        yield made


def test_what_was_written_down_before_the_snapshot_stays_counted(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    groups = purged(shop, source.slot)
    some = dict(list(groups.items())[::2])
    position = export(source, tmp_path)
    early, late = (lsn.show(lsn.parse(position) - back) for back in (20, 10))
    write_down(source, groups, early)
    write_down(source, some, late)
    # From the snapshot on the deletes are in the stream.
    write_down(source, some, position)
    mark(source, lsn.show(lsn.parse(position) + 100))
    code, out, err = seed(source, tmp_path, position)
    assert code == 0, err
    wanted = recounted(shop, source.slot, "kept")
    for group, measures in some.items():
        wanted[group] = [EXACT.add(*each) for each in zip(wanted[group], measures, strict=True)]
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(wanted)
    rows = column_sum(groups, 1) + column_sum(some, 1)
    assert said(out) == {"outcome": "kept", "rows": rows, "groups": len(groups)}

    # One row a group is left, and the next seed takes the same.
    kept = source.ask(ARCHIVED)
    positions = [at for at, *_ in kept]
    assert sorted(set(positions), key=lsn.parse) == [early, late, position]
    assert len(kept) == len(groups) + len(some)
    assert seed(source, tmp_path, position)[0] == 0
    assert source.ask(ARCHIVED) == kept
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(wanted)


def test_purged_rows_are_forgotten_when_asked(source: Source, shop: Shop, tmp_path: Path) -> None:
    groups = purged(shop, source.slot)
    position = export(source, tmp_path)
    write_down(source, groups, lsn.show(lsn.parse(position) - 1))
    write_down(source, groups, position)
    # Not built up to the snapshot: what is forgotten need not be known.
    mark(source, lsn.show(lsn.parse(position) - 1))
    code, out, err = seed(source, tmp_path, position, "--forget-purged")
    assert code == 0, err
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)
    assert said(out) == {
        "outcome": "forgotten",
        "rows": column_sum(groups, 1),
        "groups": len(groups),
    }
    assert {at for at, *_ in source.ask(ARCHIVED)} == {position}


@pytest.mark.parametrize("built", ["never", "otherwise"])
def test_a_fact_that_is_not_built_as_it_is_declared_remembers_nothing(
    source: Source, shop: Shop, tmp_path: Path, built: str
) -> None:
    position = export(source, tmp_path)
    write_down(source, purged(shop, source.slot), lsn.show(lsn.parse(position) - 1))
    if built == "otherwise":
        mark(source, position, ORDERS | {"key": ["x"]})
    code, out, err = seed(source, tmp_path, position)
    assert code == 0, err
    assert total(source.groups("ft_orders")) == recounted(shop, source.slot)
    unknown = {"outcome": "unknown", "rows": None, "groups": None}
    nothing = {"outcome": "kept", "rows": 0, "groups": 0}
    assert said(out) == (unknown if built == "otherwise" else nothing)


def test_a_fact_that_the_log_does_not_reach_back_to_keeps_what_it_wrote_down(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    groups = purged(shop, source.slot)
    position = export(source, tmp_path)
    [(start,)] = source.ask("select start_lsn::text from cdc.slot_position")
    before = lsn.show(lsn.parse(start) - 1)
    write_down(source, groups, before)
    mark(source, before)
    code, out, err = seed(source, tmp_path, position)
    assert code == 0, err
    assert nonzero(total(source.groups("ft_orders"))) == nonzero(
        recounted(shop, source.slot, "kept")
    )
    [_, gap] = json.loads(out)["facts"]["ft_orders"]["notes"]
    assert f"the change log does not go on from {before}" in gap


def test_a_fact_that_cannot_come_to_the_snapshot_is_refused_with_its_state(
    source: Source, shop: Shop, tmp_path: Path
) -> None:
    position = export(source, tmp_path)
    [(start,)] = source.ask("select start_lsn::text from cdc.slot_position")
    source.ask(
        "update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn)"
        " from cdc.slot_position returning 1"
    )
    mark(source, start)
    code, _, err = seed(source, tmp_path, position)
    assert code == 41, err
    assert "dbt has not installed it" in err
    assert "`dbt build`; then run the seed again; --forget-purged" in err
    assert source.ask("select 1 from cdc.baseline") == []
