"""The kinds of fault; each comes back when what it did is over, not when all is well again."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from random import Random

from tests.soak.failure import SoakFailed
from tests.soak.world import ROLE, World
from tests.support import LOADER, ROOT, run, wait_until
from tests.support.proxy import Proxy

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
    _until(world, lambda: world.ask_target(_BUILDING), 30)
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
    world.ask_target(_END + "application_name = 'dbt'")
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
    world.ask_target(
        _END + "application_name = 'waltally loader' and backend_type = 'client backend'"
    )


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


def role_setting(world: World) -> None:
    """Somebody sets something for the role, and its sessions begin again with it."""
    name, value = world.dice.choice(ROLE_SETTINGS)
    places = {world.dsn, world.target_dsn}
    try:
        for dsn in places:
            world.ask(f"alter role {ROLE} set {name} = {value}", dsn=dsn)
            world.ask(_END + "usename = %s", ROLE, dsn=dsn)
        world.until_followed()
        world.until_stored()
    finally:
        for dsn in places:
            world.ask(f"alter role {ROLE} reset all", dsn=dsn)
            world.ask(_END + "usename = %s", ROLE, dsn=dsn)


def kill_second_loader(world: World) -> None:
    """The loader of the second slot dies; the first one must not notice."""
    world.second_service.signal(signal.SIGKILL)


def unrelated_rows(world: World) -> None:
    """A transaction of many rows in a table that nobody counts: the WAL sender is silent long."""
    world.ask("insert into unrelated (note) select 'many' from generate_series(1, 400000)")
    world.ask("truncate unrelated")
    world.until_stored()


def synchronous_standbys(world: World) -> None:
    """The source asks every standby for its consent; the loader must not be taken for one."""
    world.ask("alter system set synchronous_standby_names = '*'")
    world.ask("select pg_reload_conf()")
    ours = "select count(*) = 0 from pg_stat_replication where sync_state in ('sync', 'quorum')"
    try:
        wait_until(lambda: world.ask(ours), "the loader is no synchronous standby", 30)
    except AssertionError as error:
        raise SoakFailed(f"{error}:\n{world.service.said()}") from error
    finally:
        world.ask("alter system reset synchronous_standby_names")
        world.ask("select pg_reload_conf()")


def crash_target(world: World) -> None:
    """The target crashes; where it commits asynchronously it would lose its last seconds."""
    world.target.stop("immediate")
    world.some_seconds(0, 0.5)
    world.target.start()


def prune(world: World) -> None:
    """A prune takes an old partition out, and is killed now and then."""
    world.ask_target(_OLD_PARTITION.format(role=ROLE))
    pruning = world.spawn("loader", "prune", "--keep", "0s", "--timeout", "5")
    seconds = world.dice.choice([world.dice.uniform(0.5, 3), 30])
    _until(world, lambda: pruning.poll() is not None, seconds)
    world.kill_group(pruning)


def archive(world: World) -> None:
    """The change log is copied away, and the copying is killed now and then."""
    copying = world.spawn("spark-submit", "spark/archive.py", "--to", str(world.home / "archive"))
    _until(world, lambda: copying.poll() is not None, world.dice.uniform(5, 60))
    world.kill_group(copying)


def rename_away(world: World) -> None:
    """A table is written to under another name: the status says so, and a new seed mends it."""
    world.writers.pause()
    try:
        world.service.stop()
        # The fact must hold what is staged: a new seed takes what was purged from there.
        world.must("loader", "run", "--once", "--build")
        world.comparison.check()
        world.ask("alter table notifications rename to elsewhere")
        world.ask("delete from elsewhere where id in (select id from elsewhere limit 3)")
        world.ask("alter table elsewhere rename to notifications")
        said = run(["loader", "status", "--json"], world.environment)
        if '"TableReplaced"' not in said.stdout:
            raise SoakFailed(f"nobody noticed a renamed table:\n{said.stdout}{said.stderr}")
        world.watcher.is_renewing = True
        world.must("loader", "setup", "--renew")
        world.watcher.is_renewing = False
        world.must("spark-submit", "spark/seed.py")
        world.must("dbt", "run")
        world.comparison.skip()
        # The second one's log has no fact; it is begun anew too.
        world.second_service.stop()
        world.must("loader", "setup", "--renew", more=world.second)
        world.second_comparison.skip()
        world.second_service.start()
        world.service.start()
    finally:
        world.watcher.is_renewing = False
        world.writers.resume()


ROLE_SETTINGS = (
    ("statement_timeout", "'100ms'"),
    ("lock_timeout", "'10ms'"),
    ("idle_session_timeout", "'500ms'"),
    ("idle_in_transaction_session_timeout", "'100ms'"),
    ("default_transaction_read_only", "on"),
    ("default_transaction_isolation", "'serializable'"),
    ("standard_conforming_strings", "off"),
    ("synchronous_commit", "off"),
    ("search_path", "''"),
    ("datestyle", "'German'"),
    ("intervalstyle", "'sql_standard'"),
    ("timezone", "'Asia/Kathmandu'"),
    ("bytea_output", "'escape'"),
    ("extra_float_digits", "-15"),
    ("client_encoding", "'LATIN1'"),
    ("quote_all_identifiers", "on"),
    ("row_security", "off"),
    ("array_nulls", "off"),
    ("work_mem", "'64kB'"),
    ("client_min_messages", "'error'"),
    ("tcp_user_timeout", "1000"),
)
"""What a role may set by itself, and what would break or stall a session that leans on it."""

# An empty partition of a window before the present one, as if the log had begun there: nobody
# needs it where there is a seed; without one the prune keeps it and says why.
_OLD_PARTITION = """
do $$
begin
    if to_regclass('cdc.change_log_00000000') is null then
        create table cdc.change_log_00000000 (like cdc.change_log including all);
        alter table cdc.change_log_00000000 owner to {role};
        alter table cdc.change_log
            attach partition cdc.change_log_00000000 for values from ('0/0') to ('1/0');
    end if;
end $$
"""

STOPS_COMMITS = frozenset({restart_fast, restart_immediate, crash_target, synchronous_standbys})
"""Faults that stop the application's commits by themselves: those are not timed."""

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
    role_setting: 5,
    kill_second_loader: 2,
    unrelated_rows: 1,
    synchronous_standbys: 2,
    crash_target: 3,
    prune: 3,
    archive: 1,
    rename_away: 1,
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
    before = world.ask_target(_BUILDING)
    if before:  # the loader's own build: take a moment anywhere in this one's life instead
        world.some_seconds(0, 4)
    else:
        _until(world, lambda: world.ask_target(_BUILDING) or build.poll() is not None, 30)
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
