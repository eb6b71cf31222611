"""The kinds of fault; each comes back when what it did is over, not when all is well again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from random import Random

from tests.soak.failure import SoakFailed
from tests.soak.proxy import Proxy
from tests.soak.world import World
from tests.support import LOADER, ROOT, wait_until

Fault = Callable[[World], None]

_BUILDING = "select true from pg_stat_activity where application_name = 'dbt' and state <> 'idle'"
_END = "select count(pg_terminate_backend(pid)) from pg_stat_activity where "


def nothing(world: World) -> None:
    """Only time passes."""
    world.some_seconds(0.5, 2)


def kill_loader(world: World) -> None:
    """The loader dies; the next one applies the models in-process, or does not."""
    world.service.arguments = world.dice.choice([[], [], ["--build"]])
    world.service.signal(signal.SIGKILL)


def kill_loader_building(world: World) -> None:
    """The loader dies while dbt works inside it."""
    if world.service.arguments != ["--build"]:
        world.service.arguments = ["--build"]
        world.service.signal(signal.SIGKILL)
    _until(world, lambda: world.ask(_BUILDING), 30)
    world.some_seconds(0, 0.3)
    world.service.arguments = []
    world.service.signal(signal.SIGKILL)


def kill_dbt(world: World) -> None:
    """A `dbt run` dies somewhere in its transactions."""
    build = _building(world)
    world.some_seconds(0, 0.5)
    world.kill_group(build)


def end_dbt_backend(world: World) -> None:
    """An administrator ends dbt's sessions, the loader's own too."""
    build = _building(world)
    world.some_seconds(0, 0.3)
    world.ask(_END + "application_name = 'dbt'")
    _until(world, lambda: build.poll() is not None, 60)
    world.kill_group(build)


def kill_spark(world: World) -> None:
    """A seed dies while it starts, reads or writes; sometimes it lives."""
    seed = world.spawn("spark-submit", "spark/seed.py")
    try:
        if world.dice.random() < 0.8:
            temporary = "select true from pg_replication_slots where temporary"
            _until(world, lambda: world.ask(temporary) or seed.poll() is not None, 60)
        _until(world, lambda: seed.poll() is not None, world.dice.uniform(0.1, 6))
    finally:
        world.kill_group(seed)


def end_walsender(world: World) -> None:
    """An administrator ends the session that streams."""
    world.ask(_END + "pid = %s", world.follower())


def end_target_backend(world: World) -> None:
    """An administrator ends the session that stores."""
    world.ask(_END + "application_name = 'waltally loader' and backend_type = 'client backend'")


def restart_fast(world: World) -> None:
    """The server is restarted as its service manager does it."""
    world.cluster.stop("fast")
    world.some_seconds(0, 0.5)
    world.cluster.start()


def restart_immediate(world: World) -> None:
    """The server crashes and recovers."""
    world.cluster.stop("immediate")
    world.some_seconds(0, 0.5)
    world.cluster.start()


def freeze_loader(world: World) -> None:
    """The loader stands still until the server has given it up."""
    pid = world.follower()
    world.service.signal(signal.SIGSTOP)
    _until(world, lambda: world.follower() != pid, world.dice.uniform(2, 6))
    world.service.signal(signal.SIGCONT)


def replace_loader(world: World) -> None:
    """The loader stands still, another one takes its place, and it wakes up beside it."""
    pid = world.follower()
    world.service.signal(signal.SIGSTOP)
    _until(world, lambda: world.follower() != pid, 10)
    with (world.home / "other loader.log").open("ab") as output:
        other = subprocess.Popen(
            [str(LOADER), "run"],
            env=world.environment,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _until(world, lambda: world.follower() not in (None, pid), 20)
        world.some_seconds(0, 0.5)
        world.service.signal(signal.SIGCONT)
        world.some_seconds(0.5, 1.5)
        if other.poll() is not None:
            raise SoakFailed(f"the other loader ended with exit code {other.returncode}")
    finally:
        world.service.signal(signal.SIGCONT)
        other.kill()
        other.wait()


def cut(world: World) -> None:
    """The loader's connections are reset: to the source, the target, or both."""
    for proxy in _some_proxies(world):
        proxy.cut()


def blackhole(world: World) -> None:
    """Nothing comes through; then all that was held does, or the connections are reset."""
    proxies = _some_proxies(world)
    for proxy in proxies:
        proxy.blackhole()
    world.some_seconds(1, 5)
    for proxy in proxies:
        if world.dice.random() < 0.5:
            proxy.cut()
        proxy.restore()


def slow_target(world: World) -> None:
    """What is read is stored late, so confirming what was read would show."""
    world.target_proxy.delay(world.dice.uniform(0.05, 0.4))
    world.some_seconds(2, 4)
    if world.dice.random() < 0.5:
        world.service.signal(signal.SIGKILL)
    world.target_proxy.restore()


WEIGHTS: dict[Fault, int] = {
    kill_loader: 6,
    kill_loader_building: 2,
    kill_dbt: 2,
    end_dbt_backend: 1,
    kill_spark: 1,
    end_walsender: 5,
    end_target_backend: 5,
    restart_fast: 3,
    restart_immediate: 3,
    freeze_loader: 2,
    replace_loader: 1,
    cut: 6,
    blackhole: 2,
    slow_target: 2,
    nothing: 1,
}


def a_round(dice: Random, weights: dict[Fault, int]) -> list[Fault]:
    """Return each kind of fault as often as its weight says, in random order."""
    faults = [fault for fault, weight in weights.items() for _ in range(weight)]
    dice.shuffle(faults)
    return faults


def _building(world: World) -> subprocess.Popen[bytes]:
    """Start a `dbt run` and return it when it has begun to work on the server, or has ended."""
    words = ["--full-refresh"] if world.dice.random() < 0.2 else []
    build = world.spawn("dbt", "run", *words)
    before = world.ask(_BUILDING)
    if before:  # the loader's own build: take a moment anywhere in this one's life instead
        world.some_seconds(0, 4)
    else:
        _until(world, lambda: world.ask(_BUILDING) or build.poll() is not None, 30)
    return build


def _some_proxies(world: World) -> list[Proxy]:
    source, target = world.source_proxy, world.target_proxy
    return world.dice.choice([[source], [target], [source, target]])


def _until(world: World, condition: Callable[[], object], seconds: float) -> None:
    """Wait for the condition, but no longer: a fault struck elsewhere is a fault too."""
    try:
        wait_until(condition, "", seconds)
    except SoakFailed:
        raise
    except AssertionError:
        world.service.check()
