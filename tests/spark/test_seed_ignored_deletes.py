"""A new baseline keeps the rows that were deleted from a table whose deletes are ignored."""

from __future__ import annotations

import json

import pytest
from waltally_jobs.seeding.store import Counted

from testkit.waiting import wait_until
from tests.spark.kept import MODELS, Kept
from tests.spark.support import meanwhile
from waltally import lsn

WRITTEN = "select commit_lsn::text, dimensions, measures from cdc.ignored_delete order by 1, 2"
STORED = (
    "select dimensions[1], sum(measures[1])::int from cdc.baseline_group"
    " where part = 'public.old_orders' group by 1"
)


def write_down(kept: Kept, position: int, **groups: int) -> None:
    """Write down how many rows were deleted at a position, by group, as the routine does."""
    for channel, rows in groups.items():
        kept.target.execute(
            "insert into cdc.ignored_delete values"
            " (%s, 'analytics.purged', 'public.old_orders', %s, %s, array[%s, 0, 0])",
            *(kept.slot, lsn.show(position), [channel], rows),
        )


def seeded(kept: Kept, *flags: str) -> list[str]:
    """Seed, and return what it says of purged rows."""
    out = kept.must_run("seed", "--json", *flags)
    notes: list[str] = json.loads(out)["models"]["purged"]["notes"]
    return notes


def test_what_was_written_down_before_the_snapshot_stays_counted(
    purging: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or is forgotten where that is asked."""
    first: list[int] = []

    def write_all(counted: Counted) -> None:
        first.append(counted.snapshot_lsn)
        write_down(purging, first[0] - 20, gone=1, web=2)
        write_down(purging, first[0] - 10, web=3)
        # From the snapshot on the deletes are in the stream.
        write_down(purging, first[0], web=4)

    meanwhile(monkeypatch, "seeding.job.count", after=write_all)
    before = dict(purging.target.execute(STORED))
    with purging.follow("--build"):
        (note,) = seeded(purging)
        assert note.startswith("still counted: 6 rows in 2 groups purged from public.old_orders;")
        wanted = {**before, "gone": 1, "web": before["web"] + 5}
        assert dict(purging.target.execute(STORED)) == wanted
        # One row a group is left. The next seed has them before its snapshot too.
        left = purging.target.execute(WRITTEN)
        assert [(lsn.parse(at) - first[0], group, rows) for at, group, (rows, *_) in left] == [
            *((-20, ["gone"], 1), (-10, ["web"], 5))
        ]
        seeded(purging)
        assert purging.target.execute(WRITTEN) == left
        assert dict(purging.target.execute(STORED)) == wanted
    # They need not be known: nobody follows.
    assert seeded(purging, "--forget-purged") == []
    assert dict(purging.target.execute(STORED)) == before
    assert purging.target.execute(WRITTEN) == []


def test_a_first_baseline_of_a_declaration_counts_the_stored_rows(purging: Kept) -> None:
    write_down(purging, 1, web=2)
    for table in ("model_watermark", "baseline"):
        purging.target.execute(f'update cdc.{table} set declaration = \'{{"query": "other"}}\'')
    before = purging.target.execute(STORED)
    with purging.follow():
        assert seeded(purging) == []
    assert purging.target.execute(STORED) == before
    assert purging.target.execute(WRITTEN) == []


def test_a_model_that_cannot_come_to_the_snapshot_is_refused_with_its_state(purging: Kept) -> None:
    purging.target.execute(
        "insert into cdc.model_watermark (relation, slot_name, applied_lsn)"
        " select relation, 'another', '0/1' from cdc.installed_model"
    )
    with purging.follow():
        code, _, err = purging.run("seed")
    assert code == 41, err
    assert "it is built from the slot another" in err
    assert "; then run the seed again; --forget-purged" in err


def test_a_model_that_nobody_applies_is_refused_with_who_would(purging: Kept) -> None:
    query, config = MODELS["purged"]
    purging.keep({"purged": (query, {**config, "engine": "spark"})})
    purging.must_run("apply", "--once")
    with purging.follow():
        code, _, err = purging.run("seed", "--timeout", "1")
    assert code == 41, err
    assert "see that `spark-submit spark/apply.py` runs; then run the seed again" in err


def test_the_purges_of_a_baseline_go_with_a_model_to_its_new_relation(purging: Kept) -> None:
    purging.source.execute("delete from old_orders where id < 5")
    with purging.follow("--build"):
        purging.must_run("seed")
    # Written down again where the model is now.
    purging.source.execute("delete from old_orders where id < 8")
    purging.catch_up()
    manifest = purging.source.manifest
    manifest.write_text(manifest.read_text().replace('"analytics"', '"other"'))
    purging.install("purged", "other", target="analytics")
    purging.apply()
    assert purging.target.value("select sum(order_count) from other.purged") == 160
    written = "select sum(measures[1]) from cdc.ignored_delete where relation = 'other.purged'"
    assert purging.target.value(written) == 7


def narrow(kept: Kept, statement: str) -> None:
    """Run a statement while the table's replica identity is its primary key."""
    some = "id in (select id from old_orders where channel = 'web' order by id limit 3)"
    kept.source.execute("alter table old_orders replica identity default")
    kept.source.execute(f"{statement} where {some}")
    kept.source.execute("alter table old_orders replica identity full")
    kept.wait_for_log()


def test_an_update_that_was_rejected_is_no_purge_and_a_delete_no_written_one(purging: Kept) -> None:
    """What was purged is written down; what the model has beyond that is none of it."""
    update = "update old_orders set channel = 'shop'"
    purged = "select sum(measures[1]) from cdc.ignored_delete"
    actions = "select action::text from analytics.rejected_changes"
    purging.source.execute("create table gone (like old_orders)")

    def is_exact_again() -> bool:
        """Seed; each row that is stored or was purged counts, and nothing is rejected."""
        purging.must_run("seed")
        purging.wait_for_log()
        purging.apply()
        tables = " union all ".join(f"table {name}" for name in ("orders", "old_orders", "gone"))
        model = "select channel, order_count, amount from analytics.purged"
        counted = f"select channel, count(*), sum(amount) from ({tables}) as t group by 1"
        return purging.target.execute(actions) == purging.compare(model, counted) == []

    def is_rejected(action: str) -> None:
        """Return once the changes are: the loader has to see that the columns have their names."""

        def is_so() -> bool:
            purging.apply()
            return purging.target.execute(actions) == [(action,)] * 3

        wait_until(is_so, "the changes are rejected")

    with purging.follow():
        purging.source.execute(
            "with own as (delete from old_orders where id in (select id from old_orders limit 5)"
            " returning *) insert into gone select * from own"
        )
        narrow(purging, update)

        is_rejected("U")
        assert is_exact_again() and purging.target.value(purged) == 5

        # Only staged: the model has not met the change when it is seeded.
        narrow(purging, update)
        assert is_exact_again() and purging.target.value(purged) == 5

        # Its group is not known, so the next seed counts what is stored.
        narrow(purging, "delete from old_orders")
        is_rejected("D")
        assert is_exact_again()


def test_a_model_that_was_emptied_by_hand_keeps_its_purges(purging: Kept) -> None:
    """No seed could know them before it is built again, which its remedy says."""
    found = "select channel, order_count, amount from analytics.purged order by 1"
    purging.source.execute("delete from old_orders where id < 5")
    purging.catch_up()
    before = purging.target.execute(found)
    purging.target.execute("truncate analytics.purged")
    purging.source.execute("update orders set channel = 'moved' where channel = 'web'")
    purging.catch_up()
    remedy = purging.target.value("select remedy from cdc.model_state")
    assert remedy.startswith("`dbt build --full-refresh --select purged`; if it fails again")
    purging.keep({"purged": MODELS["purged"]})
    purging.source.execute("update orders set channel = 'web' where channel = 'moved'")
    purging.catch_up()
    assert purging.target.execute(found) == before
