"""Everything that a soak runs: a server, traffic, the loader behind proxies, dbt, Spark."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

import psycopg2

from demo import source
from demo.cluster import Cluster
from demo.source import Identity
from tests.soak.commits import Commits
from tests.soak.comparison import Comparison
from tests.soak.failure import SoakFailed
from tests.soak.service import Service
from tests.soak.watcher import Watcher
from tests.soak.writers import Writers
from tests.support import ROOT, run, wait_until
from tests.support.proxy import Proxy
from waltally.settings import DEFAULT_SLOT as SLOT

_SERVER = {
    # Killed processes lose nothing that they wrote to the kernel; only a dead machine would.
    "fsync": "off",
    "wal_sender_timeout": "3s",
    "checkpoint_timeout": "30s",
    "client_connection_check_interval": "1s",
}
# What a role or an operator may set on a warehouse: a crash then loses the last seconds, unless
# the loader's own sessions say otherwise.
_ASYNCHRONOUS = {"fsync": "off", "synchronous_commit": "off", "wal_writer_delay": "10s"}

ROLE = "waltally"
SECOND_SLOT, SECOND_SCHEMA = "second_slot", "second_log"
# README's one role: no superuser anywhere.
_AT_SOURCE = f"""
create role {ROLE} login replication;
grant select on notifications, notification_history to {ROLE};
grant execute on function pg_replication_origin_create(text), pg_replication_origin_drop(text),
    pg_replication_origin_oid(text), pg_replication_origin_session_setup(text) to {ROLE};
"""
_AT_TARGET = f"grant create on database postgres to {ROLE};"
_OURS = ("PG", "LOADER_", "DBT_")
_FIRST_SEGMENT = "000000010000000100000001"
_PATIENCE = 120.0


class World:
    """What the hand disturbs; `dice` are the present fault's own.

    Under identity full the source is the target; under covering the target is another server,
    which commits asynchronously.
    """

    def __init__(self, seed: int, rate: float, keep: bool) -> None:
        self.dice = Random(seed)
        self.identity: Identity = "full" if seed % 2 else "covering"
        self._seed, self._rate, self._keep = seed, rate, keep
        self._stack = ExitStack()
        self._waiting = threading.Event()

    def __enter__(self) -> World:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _open(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="waltally-soak-"))
        self.cluster = Cluster(_SERVER)
        if self._keep:
            self._stack.callback(print, f"kept: {self.home}, psql '{self.cluster.dsn()}'")
        else:
            self._stack.callback(shutil.rmtree, self.home, ignore_errors=True)
            self._stack.callback(self.cluster.remove)
        self.cluster.create()
        # In window 1 of the WAL, so that an older partition can be pruned.
        self.cluster.run("pg_resetwal", "-l", _FIRST_SEGMENT, "-D", str(self.cluster.data))
        self.cluster.start()
        self.dsn = self.cluster.dsn(application_name="soak")
        source.create(self.dsn)
        source.set_identity(self.dsn, self.identity)
        with source.transaction(self.dsn) as cursor:
            cursor.execute(_AT_SOURCE)
        self.target = self.cluster if self.identity == "full" else self._another_server()
        self.target_dsn = self.target.dsn(application_name="soak")
        with source.transaction(self.target_dsn) as cursor:
            cursor.execute(_AT_TARGET)
        self.source_proxy = self._stack.enter_context(Proxy(self.cluster.port))
        self.target_proxy = self._stack.enter_context(Proxy(self.target.port))
        self.environment = self._environment()
        self.must("loader", "setup")
        self.comparison = Comparison(self.dsn, SLOT, self.target_dsn)
        self.must("loader", "setup", more=self.second)
        self.second_comparison = Comparison(self.dsn, SECOND_SLOT, self.target_dsn, SECOND_SCHEMA)
        # After the slots are made: the stream then holds these rows too, and no seed is needed.
        source.fill(
            self.dsn,
            services=5,
            templates=15,
            live_rows=2000,
            history_rows=3000,
            seed=self._seed,
            null_share=0.02 if self.identity == "full" else 0.0,
        )
        self.watcher = Watcher(self.dsn, SLOT, self.target_dsn)
        self._stack.callback(self.watcher.close)
        self.commits = Commits(self.dsn)
        self._stack.callback(self.commits.close)
        self.writers = Writers(self.dsn, 4, self._seed, self._rate, self.identity)
        self._stack.callback(self.writers.close)
        self.service = Service(self.through_proxies, self.home / "loader.log")
        self._stack.callback(self.service.close)
        self.service.start()
        self.second_service = Service(self.environment | self.second, self.home / "second.log")
        self._stack.callback(self.second_service.close)
        self.second_service.start()

    def _another_server(self) -> Cluster:
        target = Cluster(_ASYNCHRONOUS)
        if not self._keep:
            self._stack.callback(target.remove)
        target.create()
        target.start()
        with source.transaction(target.dsn()) as cursor:
            cursor.execute(f"create role {ROLE} login")
        return target

    @property
    def second(self) -> dict[str, str]:
        """What leads a command to the second slot and its schema."""
        return {"LOADER_SLOT": SECOND_SLOT, "LOADER_SCHEMA": SECOND_SCHEMA}

    @property
    def through_proxies(self) -> dict[str, str]:
        """The loader's environment: each side behind a proxy of its own."""
        return self.environment | {
            "LOADER_SOURCE_DSN": self._as_role(self.source_proxy.port),
            "LOADER_TARGET_DSN": self._as_role(self.target_proxy.port),
        }

    @staticmethod
    def _as_role(port: int) -> str:
        return f"host=127.0.0.1 port={port} dbname=postgres user={ROLE}"

    def calm(self) -> None:
        """Undo what the last fault left of the network."""
        for proxy in (self.source_proxy, self.target_proxy):
            proxy.restore()

    def pause(self, seconds: float) -> None:
        """Let things go on for so long."""
        self._waiting.wait(seconds)

    def some_seconds(self, least: float, most: float) -> None:
        """Let things go on for a random while."""
        self.pause(self.dice.uniform(least, most))

    def ask(self, query: str, *arguments: object, dsn: str = "") -> Any:
        """Return one value from the source, or from `dsn`; None while it does not answer."""
        try:
            connection = psycopg2.connect(dsn or self.dsn)
        except psycopg2.OperationalError:
            return None
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, arguments or None)
                row = cursor.fetchone() if cursor.description else None
                return row[0] if row else None
        finally:
            connection.close()

    def ask_target(self, query: str, *arguments: object) -> Any:
        """Return one value from the target, None while it does not answer."""
        return self.ask(query, *arguments, dsn=self.target_dsn)

    def follower(self) -> int | None:
        """Return the process id of the WAL sender that streams the slot, None where none does."""
        pid: int | None = self.ask(
            "select active_pid from pg_replication_slots where slot_name = %s", SLOT
        )
        return pid

    def until_followed(self) -> None:
        """Wait until the loader streams. Raises SoakFailed where it does not come back."""

        def followed() -> bool:
            self.service.check()
            return self.follower() is not None

        try:
            wait_until(followed, "the loader follows the slot again", _PATIENCE)
        except SoakFailed:
            raise
        except AssertionError as error:
            raise SoakFailed(f"{error}:\n{self.service.said()}") from error

    def until_stored(self) -> None:
        """Wait until what is committed now is stored. Raises SoakFailed where it is not."""
        end = self.ask("select pg_current_wal_insert_lsn()")
        query = "select position_lsn >= %s from cdc.slot_position where slot_name = %s"

        def stored() -> bool:
            self.service.check()
            return bool(self.ask_target(query, end, SLOT))

        try:
            wait_until(stored, f"the loader stores what was committed before {end}", _PATIENCE)
        except SoakFailed:
            raise
        except AssertionError as error:
            raise SoakFailed(f"{error}:\n{self.service.said()}") from error

    def must(self, *command: str, more: dict[str, str] | None = None) -> None:
        """Run a command of the project to its end. Raises SoakFailed where it fails."""
        done = run(list(command), self.environment | (more or {}))
        if done.returncode:
            raise SoakFailed(
                f"{' '.join(command)} ended with exit code {done.returncode}:\n"
                f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )

    def spawn(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command of the project in a process group of its own."""
        with (self.home / f"{Path(command[0]).name}.log").open("ab") as output:
            return subprocess.Popen(
                command,
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @staticmethod
    def kill_group(process: subprocess.Popen[bytes]) -> None:
        """Kill a spawned command with all that it started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _environment(self) -> dict[str, str]:
        shutil.copy(ROOT / "profiles.yml.example", self.home / "profiles.yml")
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(_OURS)
        }
        return (
            inherited
            | self.target.environment(user=ROLE)
            | {
                "LOADER_SOURCE_DSN": self._as_role(self.cluster.port),
                "LOADER_TARGET_DSN": self._as_role(self.target.port),
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "DBT_PROFILES_DIR": str(self.home),
                "DBT_TARGET_PATH": str(self.home / "target"),
                "DBT_LOG_PATH": str(self.home / "logs"),
                "SPARK_LOCAL_DIRS": str(self.home / "spark"),
                "TMPDIR": str(self.home),
            }
        )
