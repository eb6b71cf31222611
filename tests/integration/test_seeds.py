"""`loader run --seed`: models that wait for a seed get it without another command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster

TABLE = """
create schema lab;
create table lab.sale (id int primary key, shop_id int, amount int);
alter table lab.sale replica identity full;
insert into lab.sale select n, n % 7, n from generate_series(1, 1000) as n;
"""
COUNTED = "select shop_id, count(*) as n from {sale} group by 1"
SUMMED = "select shop_id, count(*) as n, sum(amount) as amount from {sale} group by 1"


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[QuerySystem]:
    with empty_database(cluster) as source:
        source.execute(TABLE)
        made = QuerySystem(source, tmp_path)
        made.keep({"sales": (COUNTED, {})})
        yield made


def state(system: QuerySystem, name: str = "sales") -> tuple[str, str]:
    ((found, reason),) = system.target.execute(
        "select state, reason from cdc.model_state where model_name = %s", name
    )
    return found, reason or ""


def command(home: Path, script: str) -> str:
    """Return the option for a command of one's own that notes its process and its words."""
    path = home / "seed.sh"
    path.write_text(f'#!/bin/sh\necho "$$ $*" >> "{home}/called"\n{script}\n')
    path.chmod(0o755)
    return f"--seed-command={path} --conf x=y"


def called(home: Path) -> list[str]:
    path = home / "called"
    return path.read_text().splitlines() if path.exists() else []


def test_new_and_changed_models_are_seeded_and_follow(system: QuerySystem) -> None:
    with system.start("--build", "--seed") as running:
        wait_until(lambda: state(system) == ("follows", ""), "it is seeded", 120)
        assert "starting the seed of sales: " in running.said() and "seed: " in running.said()
        system.source.execute("delete from lab.sale where id % 3 = 0")
        # The former query goes on until the seed.
        system.keep(
            {"sales": (SUMMED, {}), "rest": ("select id, amount from {sale}", {})}, is_refresh=False
        )
        for name in ("sales", "rest"):
            wait_until(lambda: state(system, name) == ("follows", ""), f"{name} too", 120)  # noqa: B023
        system.source.execute("update lab.sale set amount = amount + 1")
        system.must("wait")
        assert system.differing() == {}
        assert "a seed is counting" not in running.said(), "nobody has to do something"


def test_a_seed_that_fails_is_tried_again_and_the_model_says_why(
    system: QuerySystem, tmp_path: Path
) -> None:
    fails = command(tmp_path, "echo working; echo 'Error: no room' >&2; exit 3")
    with system.start("--seed", fails) as running:
        wait_until(lambda: len(called(tmp_path)) > 1, "it is tried again")
        said = (
            "it waits for its seed: without the rows from before its numbers would be wrong;"
            " its seed ended with exit code 3: no room"
        )
        wait_until(lambda: state(system) == ("waits", said), "it says so between two tries")
        assert "seed: working" in running.said()
    assert all(line.split(" ", 1)[1] == "--conf x=y --model sales" for line in called(tmp_path))
    system.must("run", "--once")
    system.target.take_baseline("sales")
    system.catch_up()
    assert state(system) == ("follows", "")


def test_a_stopped_loader_stops_its_seed_and_a_killed_one_begins_again(
    system: QuerySystem, tmp_path: Path
) -> None:
    endless = command(tmp_path, "sleep 600")
    with system.start("--build", "--seed", endless) as running:
        wait_until(lambda: len(called(tmp_path)) == 1, "it has begun")
        # A cluster's job begins minutes later.
        assert state(system) == ("waits", "a seed is counting its rows")
    assert "the seed was stopped" in running.said()
    wait_until(lambda: not is_running(called(tmp_path)[0]), "nothing of it is left")
    with system.start("--seed", endless) as running:
        wait_until(lambda: len(called(tmp_path)) == 2, "it has begun")
        running.kill()
    with suppress(ProcessLookupError):
        os.killpg(int(called(tmp_path)[1].split()[0]), 9)
    with system.start("--build", "--seed"):
        wait_until(lambda: state(system) == ("follows", ""), "it is seeded", 120)
    assert system.differing() == {}


def is_running(line: str) -> bool:
    try:
        os.kill(int(line.split()[0]), 0)
    except ProcessLookupError:
        return False
    return True


def test_what_cannot_be_is_said_at_once(system: QuerySystem) -> None:
    system.refused_with(2, "--once ends", "run", "--once", "--seed")
    system.refused_with(2, "not/there", "run", "--seed", "--seed-command", "/not/there")
