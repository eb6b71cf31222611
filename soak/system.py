"""The system that a soak disturbs: servers, loaders, traffic, and what watches them."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psutil
import psycopg2

from soak import servers, world
from soak.comparison import Comparison
from soak.programs import Service, SoakFailed
from soak.servers import ROLE, dsn_of_role
from soak.watchers import Watcher
from soak.world import MODELS
from soak.writers import writers
from testkit import notify_traffic
from testkit.commands import LOADER, ROOT, wait_until
from testkit.databases import Database
from testkit.proxy import Proxy
from testkit.servers import Server, connect
from testkit.source import Identity
from testkit.spark_cluster import spark_cluster
from testkit.system import System
from waltally.settings import DEFAULT_SLOT as SLOT

_RECOVERY_SECONDS = 300.0
"""Spark's processes start in a share of two busy cores, and give up a dead peer after 120 s."""
_NICE = 5
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


IS_COMPUTED = "select true from cdc.computed_change limit 1"
"""Whether Spark has written what the database is to add."""


def apply_by_spark(master: str) -> tuple[str, ...]:
    """Return the command that starts a driver, whose processes start fast and stay small.

    However few changes a batch has, executors count them.
    """
    executors = {"memory": "512m", "extraJavaOptions": _JAVA}
    given = (f"--conf=spark.executor.{name}={value}" for name, value in executors.items())
    submit = ("spark-submit", f"--master={master}", f"--driver-java-options={_JAVA}", *given)
    return (*submit, "spark/apply.py", "--interval", "1")


class Soaked(System):
    """One source under traffic, its target and the loader between them, until the stack ends.

    Under identity full the source is the target; under covering the target is another server,
    which commits asynchronously, and Spark applies a model on a cluster.
    """

    def __init__(self, stack: ExitStack, seed: int, rate: float, keep: bool) -> None:
        self.random = Random(seed)
        """The current fault's own."""
        self.has_spark = seed % 2 == 0
        identity: Identity = "covering" if self.has_spark else "full"
        self._stack, self._keep = stack, keep
        self._never = threading.Event()
        self.cluster = self.target_cluster = self._server(servers.SOURCE_SETTINGS)
        if self.has_spark:
            self.target_cluster = self._server(servers.TARGET_SETTINGS)
        servers.prepare(self.cluster, self.target_cluster, identity)
        world.create(self.cluster, ROLE)
        self.dsn = self.cluster.dsn(application_name="soak")
        self.target_dsn = self.target_cluster.dsn(application_name="soak")
        self.source_proxy = stack.enter_context(Proxy(self.cluster.port))
        self.target_proxy = stack.enter_context(Proxy(self.target_cluster.port))
        source, target = (
            Database(each, "postgres") for each in (self.cluster, self.target_cluster)
        )
        super().__init__(source, Path(tempfile.mkdtemp(prefix="waltally-soak-")), target)
        self.source.slot = SLOT
        self.role = ROLE
        self.project = world.make_project(self.home, "spark" if self.has_spark else "database")
        self.given = {
            "LOADER_MANIFEST": "",
            "SPARK_LOCAL_DIRS": str(self.home / "spark"),
            "TMPDIR": str(self.home),
        }
        if keep:
            stack.callback(print, f"kept: {self.home}, psql '{self.dsn}'")
        # In this process, while nothing else of it reads the environment.
        self.do("loader", "setup")
        self.comparison = Comparison(self.dsn, self.target_dsn)
        self.has_processes = True
        # After the slot, so that the log holds these rows too.
        notify_traffic.fill(self.dsn, identity, seed)
        world.SHOP.fill(self.dsn, 2000, seed)
        # Before the first purge, which counts from the first baseline on.
        self.do("dbt", "run")
        self.do("loader", "run", "--once")
        self.do("spark-submit", "spark/seed.py")

        self.watcher = Watcher(self.dsn, self.target_dsn)
        stack.callback(self.watcher.close)
        self.writers = writers(self.dsn, seed, rate, identity)
        for each in self.writers:
            stack.enter_context(each)
        self._through_proxies = self.environment(
            LOADER_SOURCE_DSN=dsn_of_role(self.source_proxy.port),
            LOADER_TARGET_DSN=dsn_of_role(self.target_proxy.port),
        )
        self.watched: list[Service] = []
        """The services that must not need an operator."""
        self.service = self._keep_running("loader", str(LOADER), "run")
        if self.has_spark:
            cluster = stack.enter_context(spark_cluster(1))
            self.worker = psutil.Process(cluster.workers[0].process.pid)
            # A driver applies batch after batch, and would keep a core from everything else.
            self.worker.nice(_NICE)
            command = ("nice", "-n", str(_NICE), *apply_by_spark(cluster.url))
            self.driver = self._keep_running("driver", *command)

    def _server(self, settings: dict[str, str]) -> Server:
        made = Server(settings)
        if self._keep:
            made.create()
            made.start()
        else:
            self._stack.enter_context(made)
        return made

    def _keep_running(self, name: str, *command: str) -> Service:
        made = Service(self._through_proxies, self.home / f"{name}.log", command)
        self._stack.callback(made.close)
        self.watched.append(made)
        return made

    @contextmanager
    def without_truncates(self) -> Iterator[None]:
        """Within the block no table is truncated."""
        notify, shop = self.writers
        with notify.without_truncates(), shop.without_truncates():
            yield

    def check_services(self) -> None:
        """Raise SoakFailed where the loader or the driver needs an operator."""
        for service in self.watched:
            service.check()

    def pause_randomly(self, least: float, most: float) -> None:
        """Do nothing for a random number of seconds."""
        self._never.wait(self.random.uniform(least, most))

    def ask(self, query: str, *arguments: object, dsn: str = "") -> Any:
        """Return one value from the source, or from `dsn`; None while it does not answer."""
        try:
            connection = connect(dsn or self.dsn)
        except psycopg2.OperationalError:
            return None
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return (cursor.fetchone() or (None,))[0] if cursor.description else None

    def ask_target(self, query: str, *arguments: object) -> Any:
        """Return one value from the target; None while it does not answer."""
        return self.ask(query, *arguments, dsn=self.target_dsn)

    def walsender_pid(self) -> Any:
        """Return the process id of the slot's WAL sender, None where there is none."""
        return self.ask("select active_pid from pg_replication_slots where slot_name = %s", SLOT)

    def wait_at_most(self, condition: Callable[[], object], seconds: float) -> None:
        """Wait for the condition or for so long: a fault at another moment is useful too."""
        try:
            wait_until(condition, "", seconds)
        except AssertionError:
            self.check_services()

    def wait_until_streaming(self) -> None:
        """Wait until the loader streams. Raises SoakFailed where it does not return."""
        self._wait_for_loader(self.walsender_pid, "the loader follows the slot again")

    def wait_until_staged(self) -> None:
        """Wait until what is committed now is staged. Raises SoakFailed where it is not."""
        end = self.ask("select pg_current_wal_insert_lsn()")
        query = "select position_lsn >= %s from cdc.slot_position where slot_name = %s"
        is_staged = partial(self.ask_target, query, end, SLOT)
        self._wait_for_loader(is_staged, f"the loader stages what was committed before {end}")

    def must_build(self) -> None:
        """Let the loader run with --build from here on, and apply everything."""
        if self.service.arguments != ["--build"]:
            self.service.kill("--build")
        self.wait_until_applied(*MODELS)

    def wait_until_applied(self, *models: str, end: str = "") -> None:
        """Wait until the models hold what is committed now, or before `end`. Raises SoakFailed."""
        end = end or self.ask("select pg_current_wal_insert_lsn()")
        for model in models:
            holds = partial(self.has, model, "follows", end)
            self._wait_for_loader(holds, f"{model} holds what is before {end}")

    def wait_for_model(self, model: str, state: str) -> None:
        """Wait until the model is in a state. Raises SoakFailed where it does not get there."""
        self._wait_for_loader(partial(self.has, model, state), f"{model} {state}")

    def of_model(self, what: str, model: str) -> Any:
        """Return what cdc.model_state says of a model."""
        query = f"select {what} from cdc.model_state where slot_name = %s and relation = %s"
        return self.ask_target(query, SLOT, f"analytics.{model}")

    def has(self, model: str, state: str, at_least: str = "0/0") -> bool:
        """Return whether the model is in a state, and holds everything before a position."""
        return self.of_model(f"state = '{state}' and applied_lsn >= '{at_least}'", model) is True

    def _wait_for_loader(self, condition: Callable[[], object], claim: str) -> None:
        def holds() -> object:
            self.check_services()
            return condition()

        try:
            wait_until(holds, claim, _RECOVERY_SECONDS)
        except AssertionError as error:
            logs = [each.last_log_lines() for each in self.watched]
            states = self.ask_target("select json_agg(s) from cdc.model_state as s")
            raise SoakFailed("\n".join([f"{error}:", str(states), *logs])) from error

    def spawn(self, program: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own; its output goes to a file in `home`."""
        environment = self.dbt_environment if program == "dbt" else self.environment
        with (self.home / f"{program}.log").open("ab") as output:
            return subprocess.Popen(
                [program, *arguments],
                env=environment(**more),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                text=True,
            )
