"""A new baseline keeps the rows that were deleted from a table whose deletes are ignored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit import recount
from testkit.databases import TABLES, empty_database
from testkit.servers import Cluster
from tests.spark.audited import DIMENSIONS, Audited
from tests.spark.kept import MODELS, Kept
from tests.spark.support import Source, WhenCounted
from tests.spark.test_seed_refusals import a_loader
from waltally import lsn

WRITTEN = "select commit_lsn::text, dimensions, measures from cdc.archived_delete order by 1, 2"
LATE = "FFFFFF/0"
ARCHIVE = TABLES[1]
Groups = Counter[tuple[Any, ...]]


def write_down(source: Source, groups: Groups, commit_lsn: str) -> None:
    """Write deletes down, by group, as the model's routine does."""
    for group, rows in groups.items():
        source.execute(
            "insert into cdc.archived_delete values"
            " (%s, 'analytics.ft_service_stats', %s, %s, %s, array[%s, 0, %s])",
            source.slot,
            ARCHIVE,
            commit_lsn,
            list(group),
            rows,
            rows,
        )


def mark(source: Source, applied_lsn: str, declaration: Mapping[str, Any] | None = None) -> None:
    """Say how far the model is built on a baseline."""
    source.execute(
        "insert into cdc.model_watermark"
        " (model_name, slot_name, applied_lsn, baseline_id, declaration)"
        " select 'analytics.ft_service_stats', slot_name, %s, gen_random_uuid(),"
        " coalesce(%s, declaration) from cdc.registered_model",
        applied_lsn,
        None if declaration is None else json.dumps(declaration),
    )


def said(out: str) -> dict[str, Any]:
    purged: dict[str, Any] = json.loads(out)["models"]["ft_service_stats"]["purged"]
    return purged


@pytest.fixture
def followed(source: Source) -> Iterator[Source]:
    """Rows in both tables, which a loader follows."""
    source.fill()
    source.execute(
        "update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn)"
        " from cdc.slot_position"
    )
    with a_loader(source):
        yield source


@pytest.fixture
def purged(followed: Source) -> Groups:
    """Deletes of groups that are stored, and of one that is not."""
    stored = list(followed.recount()[ARCHIVE])
    gone = (*stored[0][:3], "gone")
    return Counter({group: rows for rows, group in enumerate([gone, *stored[:9]], 1)})


def test_what_was_written_down_before_the_snapshot_stays_counted(
    followed: Source, purged: Groups, when_counted: WhenCounted
) -> None:
    some = Counter(dict(list(purged.items())[::2]))
    first: list[int] = []

    def write_all(position: int) -> None:
        if not first:
            write_down(followed, purged, lsn.show(position - 20))
            write_down(followed, some, lsn.show(position - 10))
            # From the snapshot on the deletes are in the stream.
            write_down(followed, some, lsn.show(position))
            first.append(position)

    when_counted(write_all)
    mark(followed, LATE)
    out = followed.must_seed("--json")
    wanted = followed.recount()[ARCHIVE] + purged + some
    assert followed.baseline()[ARCHIVE] == wanted
    rows = purged.total() + some.total()
    assert said(out) == {"outcome": "kept", "rows": rows, "groups": len(purged)}

    # One row a group is left. The next seed has the later ones before its snapshot too.
    kept = followed.execute(WRITTEN)
    [position] = first
    assert {lsn.parse(at) for at, *_ in kept} == {position - 20, position - 10, position}
    assert len(kept) == len(purged) + len(some)
    later = "delete from cdc.archived_delete where commit_lsn = %s"
    followed.execute(later, lsn.show(position))
    followed.execute(
        "update cdc.model_watermark set baseline_id = made.baseline_id from cdc.baseline as made"
    )
    left = followed.execute(WRITTEN)
    followed.must_seed()
    assert followed.execute(WRITTEN) == left
    assert followed.baseline()[ARCHIVE] == wanted


def test_purged_rows_are_forgotten_when_asked(
    followed: Source, purged: Groups, when_counted: WhenCounted
) -> None:
    def write_all(position: int) -> None:
        write_down(followed, purged, lsn.show(position - 1))
        write_down(followed, purged, lsn.show(position))
        # Not built up to the snapshot: what is forgotten need not be known.
        mark(followed, lsn.show(position - 1))

    when_counted(write_all)
    out = followed.must_seed("--json", "--forget-purged")
    assert followed.baseline() == followed.recount()
    rows, groups = purged.total(), len(purged)
    assert said(out) == {"outcome": "forgotten", "rows": rows, "groups": groups}
    snapshot = followed.value("select snapshot_lsn::text from cdc.baseline")
    assert {at for at, *_ in followed.execute(WRITTEN)} == {snapshot}


def test_a_first_baseline_of_a_declaration_counts_the_stored_rows(
    followed: Source, purged: Groups
) -> None:
    write_down(followed, purged, "0/1")
    mark(followed, LATE, {"query": "another"})
    out = followed.must_seed("--json")
    assert said(out) == {"outcome": "first", "rows": None, "groups": None}
    assert followed.baseline() == followed.recount()
    assert followed.execute(WRITTEN) == []


def test_a_model_that_cannot_come_to_the_snapshot_is_refused_with_its_state(
    followed: Source, when_counted: WhenCounted
) -> None:
    mark(followed, followed.value("select start_lsn::text from cdc.slot_position"))
    when_counted(
        lambda position: followed.execute(
            "update cdc.slot_position set position_lsn = %s", lsn.show(position)
        )
    )
    code, _, err = followed.seed()
    assert code == 41, err
    assert "dbt has not installed it" in err
    assert "`dbt build`; then run the seed again; --forget-purged" in err
    assert followed.execute("select 1 from cdc.baseline") == []


def test_the_purges_of_a_baseline_go_with_a_model_to_its_new_relation(
    cluster: Cluster, tmp_path: Path
) -> None:
    with empty_database(cluster) as database:
        kept = Kept(database, tmp_path)
        kept.write(30, "old_orders")
        kept.keep({"purged": MODELS["purged"]})
        kept.must_run("seed")
        kept.catch_up()
        database.execute("delete from old_orders where id < 5")
        with kept.follow("--build") as loader:
            kept.must_run("seed")
            loader.end()
        # Written down again where the model is now.
        database.execute("delete from old_orders where id < 8")
        kept.catch_up()
        manifest = kept.source.manifest
        manifest.write_text(manifest.read_text().replace('"analytics"', '"other"'))
        assert "registered another table for purged" in kept.must("setup")
        query, config = kept.models["purged"]
        named = [
            {"relation": f'"db"."public"."{name}"', "table": f"public.{name}"}
            for name in ("orders", "old_orders")
        ]
        database.execute(
            "create schema other; select cdc.install_query(%s, 'other', 'purged', 'purged', %s, %s,"
            " %s, 'other.rejected_changes', false)",
            *(kept.slot, query, json.dumps(named), json.dumps(config)),
        )
        kept.apply()
        assert database.value("select sum(order_count) from other.purged") == 30
        written = "select sum(measures[1]) from cdc.archived_delete where model_name = %s"
        assert database.value(written, "other.purged") == 7


PURGE = (
    "with gone as (delete from notification_history where id in (select id from"
    f" notification_history where num_nulls({DIMENSIONS}) = 0 order by id limit 5)"
    f" returning {DIMENSIONS}, key_type, created_at)"
    f" insert into truth.purged ({DIMENSIONS}, key_type, created_at) select * from gone"
)
"""Deletes archived rows as the traffic does: the recount counts them still."""


def is_exact_again(audited: Audited) -> bool:
    """Seed; whether nothing is rejected then, and each row that is stored or was purged counts."""
    audited.spark_job("spark-submit spark/seed.py --model ft_service_stats")
    audited.wait_for_log()
    audited.build()
    different = recount.differences(audited.dsn, slot=audited.slot, every_purge=True)
    return not audited.rejected() and not different


def narrow(audited: Audited, statement: str) -> None:
    """Run a statement while the archive's replica identity is its primary key."""
    audited.source.execute("alter table notification_history replica identity default")
    audited.source.execute(f"{statement} limit 3)")
    audited.source.execute("alter table notification_history replica identity full")
    audited.wait_for_log()


def test_an_update_of_the_archive_that_was_rejected_is_no_purge_and_a_delete_no_written_one(
    audited: Audited,
) -> None:
    """What was purged is written down; what the model has beyond that is none of it."""
    some = "select id from notification_history where notification_status = 'delivered'"
    update = f"update notification_history set notification_status = 'back' where id in ({some}"
    purged = "select sum(measures[1]) from cdc.archived_delete"
    with audited.follow():
        audited.source.execute(PURGE)
        narrow(audited, update)
        audited.build()
        assert [action for action, _ in audited.rejected()] == ["U"] * 3
        assert is_exact_again(audited) and audited.source.value(purged) == 5

        # Only staged: the model has not met the change when it is seeded.
        narrow(audited, update)
        assert is_exact_again(audited) and audited.source.value(purged) == 5

        # Its group is not known, so the next seed counts what is stored.
        narrow(audited, f"delete from notification_history where id in ({some}")
        audited.build()
        assert [action for action, _ in audited.rejected()] == ["D"] * 3
        assert is_exact_again(audited)


def test_a_model_that_was_emptied_by_hand_keeps_its_purges(
    cluster: Cluster, tmp_path: Path
) -> None:
    """No seed could know them before it is built again, which its remedy says."""
    models = {"purged": MODELS["purged"]}
    found = "select channel, order_count, amount from analytics.purged order by 1"
    with empty_database(cluster) as database:
        kept = Kept(database, tmp_path)
        kept.write(30)
        kept.write(30, "old_orders")
        kept.keep(models)
        kept.must_run("seed")
        kept.catch_up()
        database.execute("delete from old_orders where id < 5")
        kept.catch_up()
        before = database.execute(found)
        database.execute("truncate analytics.purged")
        database.execute("update orders set channel = 'moved' where channel = 'web'")
        kept.catch_up()
        remedy = database.value("select remedy from cdc.model_state")
        assert remedy.startswith("`dbt build --full-refresh --select purged`; if it fails again")
        kept.keep(models, is_refresh=True)
        database.execute("update orders set channel = 'web' where channel = 'moved'")
        kept.catch_up()
        assert database.execute(found) == before
