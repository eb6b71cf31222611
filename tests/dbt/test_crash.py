"""A build that is killed, and builds that meet, apply every change once."""

from __future__ import annotations

import random
import subprocess

import pytest

from tests.dbt.staged import FACT, Warehouse
from tests.dbt.workload import Source

# Where a build stops when another session holds this: the places where it could do half its work.
PLACES = {
    "before_the_merge": "lock table analytics.ft_service_stats in exclusive mode",
    "before_the_watermark": "lock table cdc.model_watermark in exclusive mode",
}


def kill(build: subprocess.Popen[str]) -> None:
    build.kill()
    build.communicate()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("words", [(), ("--full-refresh",)], ids=["incremental", "full_refresh"])
def test_a_build_killed_at_a_named_place_is_repeated_exactly(
    warehouse: Warehouse, place: str, words: tuple[str, ...]
) -> None:
    source = Source(21)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    before = warehouse.counts()
    warehouse.append(*(source.transaction() for _ in range(50)))
    with warehouse.holding(PLACES[place]):
        build = warehouse.start("run", *words, *FACT)
        warehouse.wait_for_waiting(1)
        kill(build)
    assert warehouse.counts() == before
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()


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
        output, _ = build.communicate(timeout=60)
        assert build.returncode == 0, output
    assert warehouse.counts() == source.counts()


def test_changes_staged_while_a_build_waits_are_applied_once(warehouse: Warehouse) -> None:
    source = Source(24)
    warehouse.append(*(source.transaction() for _ in range(50)))
    warehouse.build(*FACT)
    warehouse.append(*(source.transaction() for _ in range(20)))

    def stage() -> None:
        warehouse.append(*(source.transaction() for _ in range(20)))

    # The build has its bounds and waits to read.
    reading = "lock table cdc.baseline_group in access exclusive mode"
    with warehouse.interrupting(reading, stage):
        warehouse.build(*FACT)
    warehouse.build(*FACT)
    assert warehouse.counts() == source.counts()
