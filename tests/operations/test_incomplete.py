"""A count that lacks something says so: in the status, in the stats and in the loader's log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.support import LOADER, run
from tests.trouble.conftest import new
from tests.trouble.scene import Scene, profiles

FACT = "analytics.ft_service_stats"


@pytest.fixture
def scene(
    cluster: Cluster, tmp_path: Path, models: Models, patch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    """A source that is its own target."""
    with new(cluster, "incomplete") as database:
        database.load_notify()
        yield Scene(database, tmp_path, models, patch)


def status(scene: Scene) -> tuple[int, dict[str, Any]]:
    done = scene.loader("status", "--json")
    return done.returncode, json.loads(done.stdout)


def fact(body: dict[str, Any]) -> dict[str, Any]:
    (found,) = [model for model in body["models"] if model["name"] == FACT]
    return dict(found)


def stats(scene: Scene, *more: str) -> str:
    service = scene.source.value("select service_id from notifications limit 1")
    return scene.must("stats", str(service), *more)


def notes(scene: Scene) -> list[str]:
    found: list[str] = json.loads(stats(scene, "--json"))["notes"]
    return found


def build(scene: Scene) -> str:
    """Stage and build in one process, and return its log."""
    done = run([str(LOADER), "run", "--once", "--build"], scene.environment(**profiles(scene.home)))
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_fact_without_a_seed_is_unhealthy_until_it_stands_on_one(scene: Scene) -> None:
    scene.source.insert(5, "delivered")
    scene.must("setup")
    assert status(scene)[0] == 0, "nothing is built, so nothing is shown"
    scene.source.execute("delete from notifications where id in (select id from notifications "
                         "limit 2)")  # fmt: skip
    scene.must("run", "--once")
    scene.build()
    assert scene.target.value(f"select sum(live_count) from {FACT}") == -2
    code, body = status(scene)
    (problem,) = body["findings"]
    assert (code, problem["kind"], fact(body)["seed_id"]) == (3, "Unhealthy", None)
    assert f"The fact {FACT} has no baseline" in problem["message"]
    assert problem["remedy"] == "`spark-submit spark/seed.py`, then `dbt build`"
    assert "The counts are partial" in notes(scene)[0]
    assert "The counts are partial" in " ".join(stats(scene).split())

    scene.seed()
    code, body = status(scene)
    assert code == 3
    assert "not built since its baseline was taken" in body["findings"][0]["message"]
    scene.build()
    code, body = status(scene)
    assert (code, body["findings"]) == (0, [])
    seed = scene.target.value("select seed_id::text from cdc.historical_snapshot")
    assert fact(body)["seed_id"] == seed
    assert notes(scene) == []


def test_a_build_that_rejects_changes_says_so_once(scene: Scene) -> None:
    scene.begin()
    assert "could not count" not in build(scene)
    # The plugin then withholds the old rows, whatever it can say of the new ones.
    scene.source.execute("alter table notifications replica identity nothing")
    scene.source.execute("update notifications set notification_status = 'failed'")
    said = build(scene)
    assert said.count(f"{FACT} could not count some changes, the newest at ") == 1
    remedy = re.search(r"Try: (select .*?);", said)
    assert remedy
    listed = len(scene.target.execute(remedy[1]))
    assert listed > 0
    scene.source.insert(1)
    assert "could not count" not in build(scene), "nothing new was rejected"

    model = fact(status(scene)[1])
    assert model["rejected_lsn"] in said
    shown = " ".join(scene.loader("status").stdout.split())
    assert f"up to {model['rejected_lsn']}" in shown
    assert "could not be counted, the newest at" in notes(scene)[0]

    # Each row of the list names its fact.
    scene.target.execute(
        "alter table analytics.rejected_changes "
        f"add column if not exists fact text default '{FACT}'"
    )
    model = fact(status(scene)[1])
    assert model["rejected_count"] == listed
    shown = " ".join(scene.loader("status").stdout.split())
    assert f"{listed} up to {model['rejected_lsn']}" in shown
    assert notes(scene)[0].startswith(f"{listed} changes")


def test_a_reader_without_the_list_of_rejections_gets_no_number(scene: Scene) -> None:
    scene.begin()
    scene.target.execute(
        "update cdc.model_watermark set rejected_lsn = '0/1' where model_name = %s", FACT
    )
    scene.target.execute("drop table analytics.rejected_changes cascade")
    assert fact(status(scene)[1])["rejected_count"] is None
    assert notes(scene)[0].startswith("Some changes")


def test_rows_that_are_left_out_are_counted_where_a_person_sees_them(scene: Scene) -> None:
    scene.begin()
    left_out = {"live": 1203, "archived": 0}
    scene.target.execute(
        "update cdc.model_watermark set left_out = %s where model_name = %s",
        json.dumps(left_out),
        FACT,
    )
    assert fact(status(scene)[1])["left_out"] == left_out
    assert "1,203 live" in " ".join(scene.must("status").split())
    assert notes(scene) == ["1,203 rows, of all services, lack a dimension and are left out."]


def test_setup_clears_the_last_error_once_all_is_well(scene: Scene) -> None:
    scene.begin()
    scene.target.execute(
        "update cdc.slot_position set last_error = 'long ago', last_error_at = now() - "
        "interval '3 hours'"
    )
    assert "3.0 h ago: long ago" in " ".join(scene.must("status").split())
    scene.source.execute("alter table notifications rename to notifications_away")
    assert scene.loader("setup").returncode != 0
    assert status(scene)[1]["last_error"]["message"] == "long ago"
    scene.source.execute("alter table notifications_away rename to notifications")
    scene.must("setup")
    assert status(scene)[1]["last_error"] is None
