"""A seed from an archive is the seed that the source would give at the same position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from waltally_jobs.common.errors import ArchiveIncomplete, SnapshotTooOld

from testkit.databases import Database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.model import NOTIFY, Query, counting
from testkit.servers import Cluster
from tests.runbook.procedure import Operator
from tests.spark.archives import ArchivedPipeline
from tests.spark.support import MOVE

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
def test_a_lost_warehouse_is_rebuilt_from_the_archive(archived: Archived) -> None:
    source, target = archived.source, archived.target
    operator = Operator(archived)
    operator.instead = {
        "spark-submit spark/archive.py --to s3:": lambda _: archived.archive(),
        "spark-submit spark/seed.py --archive s3:": lambda _: archived.seed_from_archive(),
    }
    procedure = "Rebuild the warehouse from an archive"
    operator.carry_out(procedure, 0)
    change(source)
    archived.catch_up()
    operator.carry_out(procedure, 1)
    change(source)
    archived.catch_up()
    model = archived.model()
    lost = "drop schema if exists cdc, cdc_jobs, analytics cascade"
    target.execute(lost)

    # The loader was ahead of the archive: its slot alone does not go on from there.
    archived.must("setup", "--take-slot")
    with pytest.raises(SnapshotTooOld, match="the changes between are in neither"):
        archived.seed_from_archive()
    target.execute(lost)
    try:
        operator.carry_out(procedure, 2)
        assert operator.running is not None
        archived.spark_job(AUDIT)
        archived.build()
        assert archived.model() == model
    finally:
        operator.close()
