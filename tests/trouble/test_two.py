"""Two of everything at once: one goes first, the other waits or says so, and nothing is doubled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.pipeline import BIN
from tests.conftest import connect
from tests.support import ROOT, Database, wait_until
from tests.trouble.scene import Running, Scene, profiles


def test_the_second_loader_takes_over_when_the_first_is_killed(scene: Scene) -> None:
    scene.begin()
    with scene.follow() as first:
        scene.source.insert(2)
        scene.wait_for_staged(7)
        code, said = scene.refused("run", "--once")
        assert (code, "is in use" in said) == (24, True)
        with scene.start() as second:
            second.wait_for("is in use")
            take_over(scene, first, second)
    scene.goes_on()


def take_over(scene: Scene, first: Running, second: Running) -> None:
    first.process.kill()
    scene.source.insert(3)
    scene.wait_for_staged(10)
    assert "following the slot" in second.said()
    second.end()


def test_setup_and_teardown_leave_a_running_loader_alone(scene: Scene) -> None:
    scene.begin()
    with scene.follow() as running:
        assert scene.must("setup") == "Everything is set up already.\n"
        for command in (("setup", "--renew"), ("teardown", "--yes", "--purge")):
            code, said = scene.refused(*command)
            assert code == 24
            assert "stop the loader first" in said
        scene.source.insert(3)
        scene.wait_for_staged(8)
        assert running.said().count("following the slot") == 1
        running.end()
    scene.goes_on()


def test_two_setups_at_once_make_one_slot(scene: Scene) -> None:
    # A writer holds the slot's making up, so that the second setup comes in the middle of it.
    writer = connect(scene.source.cluster.dsn(scene.source.name))
    writer.autocommit = False
    writer.cursor().execute("insert into unrelated (note) values ('open')")
    both = [scene.source.start_loader("setup") for _ in range(2)]
    wait_until(
        lambda: scene.source.value(
            "select count(*) = 2 from pg_stat_activity where application_name = 'waltally loader' "
            "and wait_event_type = 'Lock' and datname = current_database()"
        ),
        "one waits for the writer, the other for it",
    )
    writer.commit()
    writer.close()
    said = sorted(each.communicate(timeout=60)[0].splitlines()[-1] for each in both)
    assert [each.returncode for each in both] == [0, 0]
    assert said[0] == "Everything is set up already."
    scene.source.insert(3)
    scene.must("run", "--once")
    assert scene.staged() == 3


def dbt(scene: Scene, home: Path, *words: str) -> subprocess.Popen[str]:
    home.mkdir()
    return subprocess.Popen(
        [str(BIN / "dbt"), *words],
        env={**scene.environment(), **profiles(home)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def held(database: Database, statement: str) -> Iterator[None]:
    holder = connect(database.cluster.dsn(database.name))
    holder.autocommit = False
    holder.cursor().execute(statement)
    yield
    holder.rollback()
    holder.close()


def wait_for_waiting(database: Database, sessions: int) -> None:
    wait_until(
        lambda: database.value(
            "select count(*) = %s from pg_stat_activity where wait_event_type = 'Lock' "
            "and application_name = 'dbt' and datname = current_database()",
            sessions,
        ),
        f"{sessions} sessions of dbt wait",
    )


def test_two_first_builds_at_once(scene: Scene, tmp_path: Path) -> None:
    """Both find neither schema nor table; one makes them, the other must not apply again."""
    scene.source.insert(3, "delivered")
    scene.must("setup")
    scene.seed()
    scene.source.insert(4)
    scene.must("run", "--once")
    lock = "select pg_advisory_xact_lock(hashtextextended('waltally analytics.{}', 0))"
    locks = [lock.format(model) for model in ("ft_service_stats", "rejected_changes")]
    with held(scene.source, "; ".join(locks)):
        with held(scene.source, "create schema analytics"):
            both = [dbt(scene, tmp_path / name, "run") for name in ("one", "two")]
            wait_for_waiting(scene.source, 2)
        wait_for_waiting(scene.source, 2)
    said = [each.communicate(timeout=120)[0] for each in both]
    failed = [words for each, words in zip(both, said, strict=True) if each.returncode]
    for words in failed:
        assert "while this one waited" in words
        assert "Run dbt build again" in words
        assert "already exists" not in words
    assert len(failed) < 2 or "ft_service_stats" in "".join(failed)
    scene.build()
    assert scene.differences() == []
    scene.goes_on()
