"""Whatever is killed while models are installed or applied, every change is applied once."""

from __future__ import annotations

import random
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from loader.applying.calls import Part
from tests.dbt.project import Project
from tests.dbt.staged import FACT, Warehouse, set_environment, warehouse_cluster
from tests.dbt.workload import LIVE, Source, change, row
from waltally.errors import LoaderError

AMID = {
    "an_install": "lock table cdc.installed_model in exclusive mode",
    "an_apply": "lock table cdc.model_watermark in exclusive mode",
}
"""Where dbt stops when another session holds this: the places where it could do half its work."""


def kill(build: subprocess.Popen[str]) -> None:
    build.kill()
    build.communicate()


@pytest.mark.parametrize("place", AMID)
@pytest.mark.parametrize("words", [(), ("--full-refresh",)], ids=["again", "full_refresh"])
def test_a_build_killed_at_a_named_place_is_repeated_exactly(
    warehouse: Warehouse, place: str, words: tuple[str, ...]
) -> None:
    source = Source(21)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    before = warehouse.counts()
    warehouse.append(*(source.transaction() for _ in range(50)))
    with warehouse.holding(AMID[place]):
        build = warehouse.start("run", *words, *FACT)
        warehouse.wait_for_waiting(1)
        kill(build)
    # An apply that was sent may still end at the server, as a whole.
    assert warehouse.counts() in (before, source.counts())
    warehouse.apply()
    assert warehouse.counts() == source.counts()
    warehouse.install(*FACT)
    assert warehouse.counts() == source.counts()


def test_a_first_build_that_is_killed_leaves_nothing(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    with warehouse.holding(AMID["an_install"]):
        build = warehouse.start("run", *FACT)
        warehouse.wait_for_waiting(1)
        kill(build)
    warehouse.wait_for_nobody()
    assert warehouse.execute("select to_regclass('analytics.ft_service_stats')") == [(None,)]
    assert warehouse.execute("select * from cdc.installed_model") == []
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 0)]


@pytest.mark.slow
def test_builds_killed_at_random_are_repeated_exactly(warehouse: Warehouse) -> None:
    source = Source(22)
    chance = random.Random(22)
    killed = 0
    for round_number in range(4):
        warehouse.append(*(source.transaction() for _ in range(50)))
        words = ["--full-refresh"] if round_number == 2 else []
        build = warehouse.start("--debug", "run", *words, *FACT)
        assert build.stdout
        statements = chance.randint(1, 25)
        for line in build.stdout:
            statements -= "On model.waltally.ft_service_stats" in line
            if not statements:
                break
        killed += build.poll() is None
        kill(build)
    assert killed
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()


def test_two_builds_at_once_apply_nothing_twice(warehouse: Warehouse) -> None:
    source = Source(23)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    warehouse.append(*(source.transaction() for _ in range(50)))
    with warehouse.holding("lock table cdc.slot_position in access exclusive mode"):
        # One waits for the table with the model's lock in its hands, the other one for that lock.
        builds = [warehouse.start("run", *FACT) for _ in range(2)]
        warehouse.wait_for_waiting(2)
    for build in builds:
        output, _ = build.communicate(timeout=120)
        assert build.returncode == 0, output
    assert warehouse.counts() == source.counts()


def test_changes_staged_while_an_apply_waits_are_applied_once(warehouse: Warehouse) -> None:
    source = Source(24)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    warehouse.append(*(source.transaction() for _ in range(20)))

    def stage() -> None:
        warehouse.append(*(source.transaction() for _ in range(20)))

    with warehouse.interrupting(AMID["an_apply"], stage):
        warehouse.apply_once()
    warehouse.apply()
    assert warehouse.counts() == source.counts()


@pytest.mark.parametrize("part", ["front", "behind"])
def test_a_session_that_is_terminated_amid_an_apply_has_applied_nothing(
    warehouse: Warehouse, part: Part
) -> None:
    source = Source(25)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    before = warehouse.counts()
    warehouse.append(*(source.transaction() for _ in range(50)))
    if part == "behind":
        warehouse.execute("update cdc.installed_model set is_refresh_asked = true")
    terminate = (
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where wait_event_type = 'Lock' and datname = current_database()"
    )
    with ThreadPoolExecutor() as pool, warehouse.holding(AMID["an_apply"]):
        call = pool.submit(warehouse.apply_apart, part)
        warehouse.wait_for_waiting(1)
        warehouse.execute(terminate)
        assert isinstance(call.exception(), LoaderError)
    assert warehouse.counts() == before
    warehouse.apply()
    assert warehouse.counts() == source.counts()


def test_a_server_that_stops_at_once_amid_an_apply_has_applied_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(26)
    with warehouse_cluster() as cluster:
        set_environment(cluster, monkeypatch)
        warehouse = Warehouse(cluster, project)
        warehouse.append(*(source.transaction() for _ in range(50)))
        warehouse.build(*FACT)
        before = warehouse.counts()
        warehouse.append(*(source.transaction() for _ in range(50)))
        with ThreadPoolExecutor() as pool, warehouse.holding(AMID["an_apply"]):
            call = pool.submit(warehouse.apply_apart)
            warehouse.wait_for_waiting(1)
            cluster.stop("immediate")
            assert isinstance(call.exception(), LoaderError)
        cluster.start()
        warehouse.reconnect()
        assert warehouse.counts() == before
        warehouse.apply()
        assert warehouse.counts() == source.counts()
        warehouse.close()
