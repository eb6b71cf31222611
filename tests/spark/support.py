"""Notify's tables with the staging schema, and Spark's jobs on them in this process or by Spark."""

from __future__ import annotations

import importlib
import io
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import pytest
from waltally_jobs.common import session
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import connect as connect_job
from waltally_jobs.evaluation import snapshot

from loader.applying.applier import apply_once
from testkit import model, recount
from testkit.commands import LOADER, ROOT, wait_until
from testkit.databases import Database
from testkit.model import Query
from testkit.notify_traffic import NO_PURGES, Traffic
from testkit.servers import Cluster, connect
from testkit.spark_jobs import APPS, running
from waltally.database import Connection
from waltally.settings import Settings as LoaderSettings

TEMPLATE = "template_notify"


def run_command(
    job: str, flags: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str, str]:
    """Run a job's command in this process, on the shared Spark session.

    Returns the exit code, the output and the errors, as of a process.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(session, "running", running)
        patch.setattr(sys, "argv", [f"spark/{job}.py", *flags])
        for name, value in environment.items():
            if name.startswith(("PG", "LOADER_", "DBT_")):
                patch.setenv(name, value)
        try:
            APPS[f"spark/{job}.py"].main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def submitted(
    job: str, *flags: str, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> list[str]:
    """Return the command that runs a job by spark-submit."""
    # What spark-submit sets for the driver alone.
    fast = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    properties = {"spark.sql.shuffle.partitions": "2", **fast, **(conf or {})}
    words = itertools.chain(*(("--conf", f"{key}={value}") for key, value in properties.items()))
    program = str(LOADER.with_name("spark-submit"))
    return [program, "--master", master, *words, f"spark/{job}.py", *flags]


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a job that a Source started: the driver, and the JVM that started it."""
    if process.poll() is not None:
        raise AssertionError(f"it has ended by itself: {process.communicate()}")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def meanwhile(
    patch: pytest.MonkeyPatch,
    function: str,
    before: Callable[[], object] = lambda: None,
    after: Callable[[Any], object] = lambda result: None,
    times: int = 1,
) -> None:
    """Let something happen before and after the first calls of a function of the jobs.

    What happens after it gets what it has returned.
    """
    module, _, name = function.rpartition(".")
    holder = importlib.import_module(f"waltally_jobs.{module}")
    original, left = getattr(holder, name), iter(range(times))

    def called(*arguments: Any, **more: Any) -> Any:
        is_met = next(left, None) is not None
        if is_met:
            before()
        result = original(*arguments, **more)
        if is_met:
            after(result)
        return result

    patch.setattr(holder, name, called)


class Clock:
    """A clock that a test can put ahead, so that a timeout ends where the test wants it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Source(Database):
    """A database with the source tables and the staging schema, without a loader."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self.slot = model.SLOT
        self.dsn = cluster.dsn(name)
        self._started: list[subprocess.Popen[str]] = []
        self._models: dict[str, Query] = {}

    @contextmanager
    def session(self, application: str = "") -> Iterator[Connection]:
        """Another session, which ends with the block."""
        dsn = self.cluster.dsn(self.name, application_name=application)
        with closing(connect(dsn)) as opened:
            yield opened

    def register(self, **models: Query) -> None:
        """Register these models beside those that are registered."""
        self._models |= models
        model.register(self.dsn, self._models, self.slot)

    def writing(self, sessions: int) -> Traffic:
        """Sessions that commit all kinds of change, and sometimes roll back, within a block."""
        return Traffic(self.dsn, sessions=sessions, rate=50, weights=NO_PURGES)

    def previous_seed(self) -> None:
        """Store a seed that no count would give, so that its survival can be seen."""
        self.execute(
            "insert into cdc.baseline_group (slot_name, model_name, part, dimensions, measures)"
            " select slot_name, model_name, 'public.notifications', '{a, b, sms, previous}',"
            " '{7, 7, 0}' from cdc.registered_model"
        )
        self.take_baseline()

    def has_previous_seed(self) -> bool:
        kept = self.execute("select dimensions[4], measures[1] from cdc.baseline_group")
        return kept == [("previous", 7)]

    def seed(self, *flags: str) -> tuple[int, str, str]:
        """Run the seed's command in this process; return exit code, output and errors."""
        return run_command("seed", flags, self.environment())

    def start(
        self, *flags: str, job: str = "seed", remote: str = "", **submit: Any
    ) -> subprocess.Popen[str]:
        """Start a job by spark-submit, or over Spark Connect at the address `remote`.

        `environment` is added to the variables.
        """
        environment = submit.pop("environment", {})
        if remote:
            environment = {**environment, "SPARK_REMOTE": remote}
        command = [sys.executable, f"spark/{job}.py", *flags]
        process = subprocess.Popen(
            command if remote else submitted(job, *flags, **submit),
            cwd=ROOT,
            env=self.environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def submit(self, *flags: str, **submit: Any) -> tuple[int, str, str]:
        """Run a job by spark-submit to its end."""
        process = self.start(*flags, **submit)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    @contextmanager
    def seed_that_waits_to_write(
        self, *flags: str, tasks: int = 1, **more: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a seed; within the block its tasks wait to write what they read.

        The tables need many groups. At least `tasks` wait at the start of the block.
        """
        seed = self.start("--partitions", "4", *flags, **more)
        copies = (
            "select attrelid::regclass::text from pg_attribute where attname = 'times'"
            " and attrelid::regclass::text ~ '[.]moved_'"
        )
        wait_until(lambda: self.execute(copies) or seed.poll() is not None, pause=0.005)
        with self.session() as gate, gate.transaction():
            for (table,) in gate.ask(copies):
                gate.ask(f"lock table {table} in exclusive mode")
            wait_until(lambda: self.waiting() >= tasks or seed.poll() is not None)
            assert seed.poll() is None, "the seed has ended"
            yield seed

    def must_end_as_a_recount(self) -> None:
        """See that the baseline and the changes from its position on are what the tables hold.

        And that no job has left a table of its own.
        """
        self.must("run", "--once")
        apply_once(LoaderSettings.of(self.dsn, self.dsn, self.slot, "cdc"))
        assert recount.differences(self.dsn, slot=self.slot) == []
        moved = "select relname from pg_class where relname ~ '^moved_' and relkind = 'r'"
        assert self.execute(moved) == []

    def waiting(self) -> int:
        """How many sessions of this database wait for a lock of a table."""
        return int(
            self.value(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and wait_event = 'relation' and datname = current_database()"
            )
        )

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        super().close()


def job_settings(source: Source, *names: str, dsn: str = "", timeout: float = 30) -> Settings:
    """What a seed of these models, or of all, is told; `dsn` is another way to the source."""
    return Settings(source.dsn, source.slot, "cdc", dsn or source.dsn, names, timeout=timeout)


@contextmanager
def exported(
    source: Source, dsn: str = "", timeout: float = 30
) -> Iterator[snapshot.ExportedSnapshot]:
    """Hold a snapshot of Notify's tables, as a seed does."""
    settings = job_settings(source, dsn=dsn, timeout=timeout)
    with (
        closing(connect_job(settings.source, "source")) as monitor,
        snapshot.export(settings, (model.notify(),), monitor) as held,
    ):
        yield held


def notifications_in(source: Source, held: snapshot.ExportedSnapshot) -> int:
    """Count the notifications that the snapshot shows."""
    with snapshot.imported(held.readers, held.name) as reader:
        [(rows,)] = reader.ask("select count(*) from public.notifications")
    return int(rows)
