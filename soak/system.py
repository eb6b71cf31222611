"""The system that a soak disturbs: servers, loaders, traffic, and what watches them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psutil
import psycopg2

from soak import servers
from soak.comparison import Comparison
from soak.programs import DRIVER_NEEDS_OPERATOR, LoaderService, SoakFailed
from soak.servers import ROLE, dsn_of_role
from soak.watchers import CommitTimer, PositionWatcher
from soak.world import BY_SPARK, BY_SPARK_ROLL_UP, MODELS, OddTable, make_project
from soak.writers import Writers
from testkit import notify_traffic
from testkit.commands import ROOT, wait_until
from testkit.databases import Database
from testkit.proxy import Proxy
from testkit.servers import Server, administer, connect
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
    return (*submit, "spark/apply.py", "--in-driver", "0", "--interval", "1")


class Soaked(System):
    """One source under traffic, its target and the loader between them.

    Under identity full the source is the target; under covering the target is another server,
    which commits asynchronously, and Spark applies a model on a cluster.
    """

    def __init__(self, seed: int, rate: float, keep: bool) -> None:
        self.random = Random(seed)
        """The current fault's own."""
        self.identity: Identity = "full" if seed % 2 else "covering"
        self.has_spark = self.identity == "covering"
        self._seed, self._rate, self._keep = seed, rate, keep
        self._stack = ExitStack()
        self._never = threading.Event()

    def __enter__(self) -> Soaked:
        try:
            self._make_servers()
            self._make_slot()
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _make_servers(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="waltally-soak-"))
        self.cluster = self.target_cluster = self._server(servers.SOURCE_SETTINGS)
        if self._keep:
            self._stack.callback(print, f"kept: {self.home}, psql '{self.cluster.dsn()}'")
        else:
            self._stack.callback(shutil.rmtree, self.home, ignore_errors=True)
        if self.identity == "covering":
            self.target_cluster = self._server(servers.TARGET_SETTINGS)
        servers.prepare(self.cluster, self.target_cluster, self.identity)
        self.odd = OddTable(self._seed)
        administer(self.cluster, self.odd.create(ROLE))
        self.dsn = self.cluster.dsn(application_name="soak")
        self.target_dsn = self.target_cluster.dsn(application_name="soak")
        self.source_proxy = self._stack.enter_context(Proxy(self.cluster.port))
        self.target_proxy = self._stack.enter_context(Proxy(self.target_cluster.port))
        super().__init__(
            Database(self.cluster, "postgres"), self.home, Database(self.target_cluster, "postgres")
        )
        self.source.slot = SLOT
        self.role = ROLE
        engine = "spark" if self.has_spark else "database"
        self.project = make_project(self.home, self.odd, engine)
        self.given = {
            "LOADER_MANIFEST": "",
            "SPARK_LOCAL_DIRS": str(self.home / "spark"),
            "TMPDIR": str(self.home),
        }

    def _server(self, settings: dict[str, str]) -> Server:
        made = Server(settings)
        if not self._keep:
            self._stack.callback(made.remove)
        made.create()
        made.start()
        return made

    def _make_slot(self) -> None:
        # In this process, while nothing else of it reads the environment.
        self.do("loader", "setup")
        tables = ("public.notifications", "public.notification_history", self.odd.logged_name)
        self.comparison = Comparison(self.dsn, SLOT, self.target_dsn, tables)
        self.has_processes = True
        # After the slot, so that the log holds these rows too.
        notify_traffic.fill(self.dsn, self.identity, self._seed)
        # Before the first purge, which counts from the first baseline on.
        self.do("spark-submit", "spark/seed.py")
        self.do("dbt", "run")

    def _start(self) -> None:
        self.position_watcher = PositionWatcher(self.dsn, SLOT, self.target_dsn)
        self._stack.callback(self.position_watcher.close)
        self.commit_timer = CommitTimer(self.dsn)
        self._stack.callback(self.commit_timer.close)
        self.writers = Writers(self.dsn, self._seed, self._rate, self.identity, self.odd)
        self._stack.callback(self.writers.close)
        through_proxies = self.environment(
            LOADER_SOURCE_DSN=dsn_of_role(self.source_proxy.port),
            LOADER_TARGET_DSN=dsn_of_role(self.target_proxy.port),
        )
        self.service = self._keep_running("loader", through_proxies)
        self.watched = [self.service]
        """The services that must not need an operator."""
        if self.has_spark:
            self._start_spark(through_proxies)

    def _start_spark(self, environment: dict[str, str]) -> None:
        cluster = self._stack.enter_context(spark_cluster(1))
        self.worker = psutil.Process(cluster.workers[0].process.pid)
        # A driver applies batch after batch, and would keep a core from everything else.
        self.worker.nice(_NICE)
        command = ("nice", "-n", str(_NICE), *apply_by_spark(cluster.url))
        self.driver = self._keep_running("driver", environment, command, DRIVER_NEEDS_OPERATOR)
        self.watched.append(self.driver)

    def _keep_running(self, name: str, environment: dict[str, str], *command: Any) -> LoaderService:
        made = LoaderService(environment, self.home / f"{name}.log", *command)
        self._stack.callback(made.close)
        return made

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
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

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

    def wait_for_spark(self) -> None:
        """Wait until the model of Spark and its roll-up hold what is staged. Raises SoakFailed."""
        staged = "select position_lsn from cdc.slot_position where slot_name = %s"
        self.wait_until_applied(BY_SPARK, BY_SPARK_ROLL_UP, end=self.ask_target(staged, SLOT))

    def wait_for_model(self, model: str, state: str) -> None:
        """Wait until the model is in a state. Raises SoakFailed where it does not get there."""
        self._wait_for_loader(partial(self.has, model, state), f"{model} {state}")

    def reason(self, model: str) -> str:
        """Return why the model waits or failed, empty where it does neither."""
        query = "select reason from cdc.model_state where slot_name = %s and relation = %s"
        return self.ask_target(query, SLOT, f"analytics.{model}") or ""

    def has(self, model: str, state: str, at_least: str = "0/0") -> Any:
        """Return whether the model is in a state, and holds everything before a position."""
        return self.ask_target(
            "select applied_lsn >= %s::pg_lsn from cdc.model_state "
            "where slot_name = %s and relation = %s and state = %s",
            *(at_least, SLOT, f"analytics.{model}", state),
        )

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
