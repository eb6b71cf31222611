"""Notify's tables with the staging schema, and Spark's jobs on them in this process or by Spark."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import connect as connect_job
from waltally_jobs.evaluation import snapshot

from loader.applying.applier import apply_once
from testkit import model, recount
from testkit.commands import LOADER, ROOT, wait_until
from testkit.databases import TABLES, Database
from testkit.model import NOTIFY, Query
from testkit.notify_traffic import NO_PURGES, Traffic
from testkit.servers import Cluster, connect, connect_target
from testkit.spark_jobs import APPS, FAST_START
from waltally.database import Connection
from waltally.models import Model
from waltally.settings import Settings as LoaderSettings

TEMPLATE = "template_notify"

# While a session holds this, every reader stops at the first enum value that it prints. A cast of
# the test's own would not stop it: the stream does not ask casts, so neither does the seed.
GATE = "lock table pg_catalog.pg_enum in access exclusive mode"
AT_THE_GATE = """
    select count(*) from pg_locks
    where relation = 'pg_catalog.pg_enum'::regclass and not granted
        and database = (select oid from pg_database where datname = current_database())
"""

COUNTS = """
    select dimensions, sum(measures[1])
    from cdc.baseline_group
    where slot_name = %s and declared_name = 'ft_service_stats' and part = %s
    group by dimensions
"""
MOVE = """
    with gone as (delete from notifications where {} returning *)
    insert into notification_history (
        id, service_id, template_id, notification_type, notification_status, created_at
    )
    select id, service_id, template_id, notification_type, notification_status, created_at
    from gone on conflict do nothing
"""
"""Moves rows to the history, as the application does."""

RECOUNT = """
    select array[service_id::text, template_id::text, format('%s', notification_type),
        notification_status], count(*)
    from {} group by 1
"""

READ = """
import json, sys, waltally_source
from pyspark.sql import SparkSession
spark = SparkSession.getActiveSession()
changes = spark.read.format("waltally").options(**json.loads(sys.argv[1])).load()
rows = changes.select("commit_lsn", "ordinal", "payload").collect()
print(json.dumps([type(spark).__module__, sorted(map(list, rows))]))
"""
"""Prints the kind of its session, and the changes that it reads."""

Counts = dict[str, Counter[tuple[Any, ...]]]
WhenCounted = Callable[[Callable[[int], object]], None]
"""Takes what is done in a seed between its counting and its storing, at the snapshot's position."""


def run_command(
    job: str, flags: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str, str]:
    """Run a job's command in this process, on the shared Spark session.

    Returns the exit code, the output and the errors, as of a process.
    """
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
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
    properties = {"spark.sql.shuffle.partitions": "2", **(conf or {})}
    words = itertools.chain(*(("--conf", f"{key}={value}") for key, value in properties.items()))
    start = ["spark-submit", "--master", master, "--driver-java-options", FAST_START]
    return [*start, *words, f"spark/{job}.py", *flags]


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the driver, then the JVM that started it: the driver outlives it and would go on."""
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.communicate()


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
        self.variables = {
            **os.environ,
            **cluster.environment(name),
            "PATH": f"{LOADER.parent}:{os.environ['PATH']}",
        }
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

    # A seed that was there before.

    def previous_seed(self) -> None:
        """Store a seed that no count would give, so that its survival can be seen."""
        self.execute(
            "insert into cdc.baseline_group (slot_name, declared_name, part, dimensions, measures)"
            " select slot_name, declared_name, 'public.notifications',"
            " array[gen_random_uuid()::text, gen_random_uuid()::text, 'sms', 'previous'],"
            " '{7, 7, 0}' from cdc.registered_model"
        )
        self.take_baseline()

    def has_previous_seed(self) -> bool:
        kept = self.execute("select dimensions[4], measures[1] from cdc.baseline_group")
        return kept == [("previous", 7)]

    # A seed.

    def seed(self, *flags: str) -> tuple[int, str, str]:
        """Run the seed's command in this process; return exit code, output and errors."""
        return run_command("seed", flags, self.variables)

    def must_seed(self, *flags: str) -> str:
        """Run the seed's command in this process and return its output; fail where it fails."""
        code, out, err = self.seed(*flags)
        assert code == 0, err
        return out

    def start(
        self, *flags: str, job: str = "seed", remote: str = "", **submit: Any
    ) -> subprocess.Popen[str]:
        """Start a job by spark-submit, or over Spark Connect at the address `remote`.

        `environment` is added to the variables.
        """
        environment = submit.pop("environment", {})
        if remote:
            environment = {**environment, "SPARK_REMOTE": remote}
        process = subprocess.Popen(
            [sys.executable, f"spark/{job}.py", *flags]
            if remote
            else submitted(job, *flags, **submit),
            cwd=ROOT,
            env={**self.variables, **environment},
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
    def closed_gate(self, ended: Callable[[], bool]) -> Iterator[None]:
        """Let the reader of a seed, which was started, wait within the block.

        The gate's lock is a transaction that writes, which the snapshot would wait for, so it is
        closed only when that is there. `ended` is true when the seed has ended by itself.
        """
        made = (
            "select 1 from pg_replication_slots where slot_name ~ '^waltally_seed_'"
            " and database = current_database() and confirmed_flush_lsn is not null"
        )
        wait_until(lambda: self.execute(made) or ended(), pause=0.005)
        with self.session() as gate, gate.transaction():
            gate.ask(GATE)
            wait_until(lambda: self.value(AT_THE_GATE) >= 1 or ended())
            assert not ended(), "the seed has ended"
            yield

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
            wait_until(lambda: self.waiting("relation") >= tasks or seed.poll() is not None)
            assert seed.poll() is None, "the seed has ended"
            yield seed

    def python(self, script: str, options: Mapping[str, str], *more: str, remote: str = "") -> str:
        """Run a script in another Python, which may read the change log; return what it prints.

        Its arguments are the data source's options as JSON, and more.
        """
        given = json.dumps({"target": self.dsn, "slot": self.slot, **options})
        environment = {**self.variables, "PYTHONPATH": str(ROOT / "spark")}
        done = subprocess.run(
            [sys.executable, "-c", script, given, *more],
            env={**environment, **({"SPARK_REMOTE": remote} if remote else {})},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read_apart(self, remote: str = "", **options: str) -> tuple[str, list[Any]]:
        """Read the change log in another Python; return its session's module and the changes."""
        kind, changes = json.loads(self.python(READ, options, remote=remote))
        return kind, changes

    # What came of it.

    def baseline(self) -> Counts:
        return {table: self._counted(COUNTS, self.slot, table) for table in TABLES}

    def recount(self) -> Counts:
        return {table: self._counted(RECOUNT.format(table)) for table in TABLES}

    def _counted(self, query: str, *values: object) -> Counter[tuple[Any, ...]]:
        return Counter({tuple(group): rows for group, rows in self.execute(query, *values)})

    def must_end_as_a_recount(self) -> None:
        """See that the baseline and the changes from its position on are what the tables hold."""
        self.must("run", "--once")
        self.execute("create schema analytics")
        with closing(connect_target(self.dsn, self.slot)) as target, target.transaction():
            NOTIFY.install(target, "ft_service_stats")
        apply_once(LoaderSettings.of(self.dsn, self.dsn, self.slot, "cdc"))
        assert recount.differences(self.dsn, slot=self.slot) == []

    def tables_of_jobs(self) -> list[tuple[Any, ...]]:
        return self.execute("select 1 from pg_class where relname ~ '^moved_' and relkind = 'r'")

    def job_sessions(self) -> list[tuple[Any, ...]]:
        """The sessions of a seed."""
        return self.execute(
            "select pid from pg_stat_activity where application_name = 'waltally seed'"
        )

    def waiting(self, kind: str) -> int:
        """How many sessions of this database wait for a lock of this kind."""
        return int(
            self.value(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and wait_event = %s and datname = current_database()",
                kind,
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
    source: Source,
    *declared: Model,
    dsn: str = "",
    timeout: float = 30,
    notify: Callable[[str], None] = print,
) -> Iterator[snapshot.ExportedSnapshot]:
    """Hold a snapshot of these models' tables, or of Notify's, as a seed does."""
    settings = job_settings(source, dsn=dsn, timeout=timeout)
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(connect_job(settings.source, "source")) as monitor,
    ):
        patch.setattr(snapshot, "print_status", notify)
        with snapshot.export(settings, declared or (model.notify(),), monitor) as held:
            yield held


def notifications_in(source: Source, held: snapshot.ExportedSnapshot) -> int:
    """Count the notifications that the snapshot shows."""
    with source.session() as reader, reader.transaction():
        reader.ask("set transaction isolation level repeatable read")
        reader.ask(f"set transaction snapshot '{held.name}'")
        [(rows,)] = reader.ask("select count(*) from notifications")
    return int(rows)
