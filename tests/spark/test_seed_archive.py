"""A seed from an archive is the seed that the source would give, and goes on as the stream had."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from waltally_jobs.common.errors import ArchiveIncomplete, ReplayDiffers

from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster
from tests.queries.odd import Writer
from tests.queries.test_facts import MODELS as FACTS
from tests.runbook.procedure import Operator
from tests.spark.archives import manifests
from tests.spark.kept import ABOVE, LISTED, MODELS, ROWS, Kept, made
from tests.spark.support import submitted
from waltally import lsn

ARCHIVED = ("by_day", "total", "of_two", "purged", "numbers_in_texts", "tags")
DELETES = (
    "select model_name, part, dimensions, place, sum(measure)::text from cdc.archived_delete"
    " cross join unnest(measures) with ordinality as u (measure, place)"
    " group by 1, 2, 3, 4 order by 1, 2, 3, 4"
)
STORED = (
    "select declared_name, part, dimensions, array(select trim_scale(coalesce(n, 0))::text"
    " from unnest(measures) as n) from cdc.baseline_group where declared_name <> 'copied'"
    " and exists (select from unnest(measures) as n where n <> 0) order by 1, 2, 3",
    "select declared_name, table_identities::text from cdc.baseline order by 1",
    "select declared_name, part, reason, row_count from cdc.baseline_rejection order by 1, 2, 3",
    DELETES,
)
"""Everything that seeds store, but their numbers and times."""


def ask(system: QuerySystem, *queries: str) -> list[list[tuple[Any, ...]]]:
    return [system.target.execute(query) for query in queries]


def test_a_seed_from_an_archive_goes_on_as_the_stream_had(
    system: QuerySystem, tmp_path: Path
) -> None:
    """At the archive's end and before: of several tables, emptied, purged, with rows refused."""
    archive = f"{tmp_path}/archive"
    seed = f"spark-submit spark/seed.py --archive {archive}"
    replay = f"spark-submit spark/replay.py --from {archive}"
    each_row = [
        f"select to_jsonb(t)::text from analytics.{name} as t order by 1" for name in ARCHIVED
    ]
    facts = {name: FACTS[name] for name in ARCHIVED}
    # It keeps rows, and those are not computed from an archive.
    facts["copied"] = "select id, code from {a}", {}
    of_facts = " ".join(by_model(ARCHIVED))
    system.keep(facts)
    writer = Writer(system.source, Random(9), truncates=False)  # type: ignore[arg-type]
    writer.write(150)
    system.spark_job("spark-submit spark/seed.py")
    places: list[str] = []
    for number in range(2):
        writer.truncates = number == 1
        writer.write(150)
        system.catch_up()
        system.spark_job(f"spark-submit spark/archive.py --to {tmp_path}/archive")
        places.append(system.target.value("select position_lsn::text from cdc.slot_position"))
        system.spark_job(f"{replay} {of_facts} --compare")
        at = f"--json --at {places[-1]} --to {tmp_path}/{number}"
        out = system.spark_job(f"{replay} {of_facts} {at}")
        groups = {name: said["groups"] for name, said in json.loads(out)["models"].items()}
        assert groups == {
            name: system.target.value(f"select count(*) from analytics.{name}") for name in ARCHIVED
        }
    largest = "where n = (select max(n) from analytics.by_day)"
    system.target.execute(f"update analytics.by_day set n = n + 1 {largest}")
    with pytest.raises(ReplayDiffers, match="by_day differs"):
        system.spark_job(f"{replay} {of_facts} --compare")
    system.target.execute(f"update analytics.by_day set n = n - 1 {largest}")

    rows, [deletes] = ask(system, *each_row), ask(system, DELETES)
    assert deletes
    for place in places:
        # What was applied since then is applied again. Another query had been built meanwhile.
        system.target.execute(
            "update cdc.model_watermark set declaration = '{}' where model_name !~ 'copied'"
        )
        system.spark_job(f"{seed} {of_facts} --at {place}")
        stands_at = (
            "select distinct snapshot_lsn::text from cdc.baseline where declared_name <> 'copied'"
        )
        assert system.target.execute(stands_at) == [(place,)]
        system.apply()
        assert ask(system, *each_row) == rows, place
        assert ask(system, DELETES) == [deletes], place
    for job in (seed, replay):
        with pytest.raises(ArchiveIncomplete, match="copied keeps rows, and those are not comp"):
            system.spark_job(f"{job} --model copied")
    stored = ask(system, *STORED)
    assert all(stored)
    with system.follow() as loader:
        system.spark_job("spark-submit spark/seed.py")
        loader.end()
    assert ask(system, *STORED) == stored
    system.keep({**facts, "late": FACTS["total"]})
    with pytest.raises(ArchiveIncomplete, match="no baseline of late"):
        system.spark_job(f"{seed} --model late")


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
