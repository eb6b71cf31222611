"""A seed from an archive is the seed that the source would give at the same position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waltally_jobs.common.errors import ArchiveIncomplete

from testkit.databases import Database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.model import NOTIFY, Query, counting
from testkit.servers import Cluster
from tests.runbook.procedure import Operator
from tests.spark.archives import ArchivedPipeline, manifests
from tests.spark.kept import ABOVE, LISTED, MODELS, ROWS, Kept, made
from tests.spark.support import MOVE, submitted
from waltally import lsn

INSERT = (
    "insert into {} ({}, service_id, template_id, notification_type, notification_status)"
    " select {}, case when i %% 7 <> 0 then service_id end, id,"
    " (array['sms', 'email'])[1 + i %% 2]::notification_type, %s"
    " from templates, generate_series(1, 9) as i"
)
LIVE = INSERT.format("notifications", '"to"', "'x'")
HISTORY = INSERT.format("notification_history", "id, created_at", "gen_random_uuid(), now()")
PURGE = "delete from notification_history where id in (select id from notification_history limit 5)"

AUDIT = "spark-submit spark/audit.py --model ft_service_stats"
STORED = (
    "select declared_name, part, dimensions, measures::text[] from cdc.baseline_group"
    " where exists (select from unnest(measures) as number where number <> 0) order by 1, 2, 3"
)
COUNTED = "select declared_name, table_identities::text from cdc.baseline order by 1"
REJECTED = (
    "select declared_name, part, reason, row_count from cdc.baseline_rejection order by 1, 2, 3"
)
PURGED = "select model_name, part, dimensions, sum(measures[1])::text from cdc.archived_delete"

# It cannot take a row whose status has six letters.
DECLARED = {
    "ft_service_stats": NOTIFY,
    "ft_lengths": Query(
        "select 100 / (length(notification_status) - 6) as length, count(*) as row_count"
        " from {public.notifications} group by 1"
    ),
}


class Archived(ArchivedPipeline):
    """A source with a warehouse of its own, and the warehouse's archive."""

    def seed_from_archive(self, *flags: str) -> dict[str, Any]:
        words = ("spark-submit spark/seed.py --archive", str(self.archive_home), "--json", *flags)
        out = self.spark_job(" ".join(words))
        found: dict[str, Any] = json.loads(next(x for x in out.splitlines() if x[0] == "{"))
        return found

    def stored(self) -> list[list[Any]]:
        """Everything that seeds store, but their numbers and times."""
        return [
            self.target.execute(STORED),
            self.target.execute(COUNTED),
            self.target.execute(REJECTED),
            self.target.execute(f"{PURGED} group by 1, 2, 3 order by 1, 2, 3"),
        ]


@pytest.fixture(scope="module")
def archived(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archived]:
    with (
        empty_database(cluster, "archived_source") as source,
        empty_database(cluster, WAREHOUSE) as target,
    ):
        source.load_notify()
        made = Archived(source, tmp_path_factory.mktemp("archived"), target)
        for status in ("created", "x" * 1001):
            source.execute(LIVE, status)
        source.execute(HISTORY, "delivered")
        source.declare(**DECLARED)
        made.must("setup")
        made.spark_job("spark-submit spark/seed.py")
        made.catch_up()
        yield made


def change(source: Database) -> None:
    """Each kind of change, with purges from the table whose deletes are ignored."""
    source.execute(LIVE, "sent")
    source.execute(PURGE)
    source.execute(MOVE.format("notification_status = 'sent'"))
    short = "length(notification_status) < 1000"
    source.execute(f"update notifications set service_id = null where {short} and random() < 0.1")
    source.execute(PURGE)
    source.execute("delete from notifications where service_id is null and random() < 0.5")
    source.execute("update notification_history set notification_status = 'failed'")
    source.execute(LIVE, "failed")


def test_a_seed_from_the_archive_is_one_from_the_source(archived: Archived) -> None:
    source = archived.source
    change(source)
    archived.catch_up()
    before = archived.position()
    change(source)
    archived.catch_up()
    archived.archive()
    model = archived.model()
    live, history = map(sum, zip(*archived.recount().values(), strict=True))
    kept_live, kept_history = map(sum, zip(*model.values(), strict=True))
    assert kept_live == live
    assert kept_history > history

    # At an earlier position: what was applied since then is applied again. Another declaration had
    # been built meanwhile.
    archived.target.execute("update cdc.model_watermark set declaration = '{}'")
    said = archived.seed_from_archive("--at", before)
    assert said["snapshot_lsn"] == before
    assert said["models"]["ft_service_stats"]["purged"]["rows"] > 0
    archived.build()
    assert archived.model() == model
    loader = archived.follow()
    archived.spark_job(AUDIT)
    loader.end()

    # A model that the archive has never heard of.
    unknown = counting("public.notification_history", "service_id")
    source.declare(**DECLARED, ft_unknown=unknown)
    archived.must("setup")
    with pytest.raises(ArchiveIncomplete, match="no baseline of ft_unknown"):
        archived.seed_from_archive("--model", "ft_unknown")
    source.declare(**DECLARED)
    archived.must("setup")
    archived.seed_from_archive()
    found = archived.stored()
    loader = archived.follow()
    archived.spark_job("spark-submit spark/seed.py")
    loader.end()
    for mine, wanted in zip(found, archived.stored(), strict=True):
        assert mine == wanted
    assert all(found)


@pytest.mark.slow
def test_a_lost_warehouse_is_rebuilt_from_an_archive_that_was_killed_and_a_log_that_was_pruned(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Models of every kind, in another database; what only the archive knows stays counted."""
    home = str(tmp_path / "archive")
    of_rows = [name for name, (query, _) in MODELS.items() if query in (ROWS, LISTED)]
    others = [name for name in MODELS if name not in (*of_rows, *ABOVE)]
    with made(cluster, tmp_path, is_apart=True) as kept, empty_database(cluster) as fresh:
        pipeline: Any = kept
        operator = Operator(pipeline)

        def seed_from_archive() -> None:
            kept.must_run("seed", "--archive", home, *by_model(others))

        def build() -> None:
            kept.keep(MODELS)
            kept.apply()

        operator.instead = {
            "spark-submit spark/archive.py --to s3:": lambda _: kept.must_run(
                "archive", "--to", home
            ),
            "spark-submit spark/seed.py --archive s3:": lambda _: seed_from_archive(),
            "dbt build": lambda _: build(),
        }
        procedure = "Rebuild the warehouse from an archive"
        operator.carry_out(procedure, 0)
        change_orders(kept)
        kept.source.begin_block()
        change_orders(kept)
        killed = kept.spawn(
            *submitted("archive", "--to", home, "--slice-changes", "50"),
            WALTALLY_KILL_AT="archive-manifest",
        )
        killed.communicate(timeout=300)
        assert killed.returncode
        slot_home = tmp_path / "archive" / f"slot={kept.slot}"
        assert len(manifests(slot_home)) == 1
        operator.carry_out(procedure, 1)
        assert len(manifests(slot_home)) > 1
        kept.must("prune", "--keep", "0s")
        start = "select start_lsn::text from cdc.slot_position"
        assert lsn.parse(kept.target.value(start)) > manifests(slot_home)[0]["to_lsn"]
        change_orders(kept)
        rows = {name: rows_of(kept, name) for name in MODELS}

        # The loader was ahead of the archive: its slot alone does not go on from there.
        kept.target = fresh
        kept.must("setup", "--take-slot")
        code, _, err = kept.run("seed", "--archive", home, *by_model(others))
        assert code == 32 and "the changes between are in neither" in err
        fresh.execute("drop schema cdc, cdc_jobs cascade")
        try:
            operator.carry_out(procedure, 2)
            kept.must_run("seed", *by_model(of_rows))
            kept.wait_for_log()
            kept.apply()
            code, out, err = kept.run("audit", "--json")
            assert code == 0, err
        finally:
            operator.close()
        report = json.loads(out)
        assert {*report["models"], *report["over_models"]} == {*MODELS}
        assert report["equal"] and int(report["models"]["purged"]["purged"]["order_count"]) > 0
        for name, before in rows.items():
            assert rows_of(kept, name) == before, name


def rows_of(kept: Kept, name: str) -> list[str]:
    return sorted(map(str, kept.target.execute(f"table analytics.{name}")))


def by_model(names: Iterable[str]) -> list[str]:
    """Return the flags that name these models."""
    return [word for name in names for word in ("--model", name)]


def change_orders(kept: Kept) -> None:
    """Each kind of change, with a purge; staged and applied."""
    kept.write(60)
    kept.write(30, "old_orders")
    for statement in (
        "update orders set status = 'paid', amount = amount + 1 where id % 7 = 3",
        "delete from orders where id % 13 = 3",
        "delete from old_orders where id % 5 = 3",
    ):
        kept.source.execute(statement)
    kept.catch_up()
