"""One system: a source, its target, the slot between them, and the commands of an operator."""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from testkit import recount
from testkit.commands import (
    ROOT,
    Commands,
    RunningLoader,
    profiles,
    run,
    run_dbt,
    run_loader,
    short_pauses,
    wait_until,
)
from testkit.comparison import Difference
from testkit.databases import Database
from testkit.model import install_declared
from testkit.servers import connect
from waltally.database import Connection
from waltally.settings import DEFAULT_SCHEMA, Settings

OWN_VARIABLES = ("PG", "LOADER_", "DBT_")
"""How the names of the settings begin, which a system sets by itself."""


class System(Commands):
    """A source and a target, the same by default, with the commands of an operator.

    A command runs in this process where it can; with `has_processes` each is a process of its own.
    `home` is the folder of dbt's profile, its output and the loaders' logs. Commands run as `role`.
    """

    def __init__(self, source: Database, home: Path, target: Database | None = None) -> None:
        self.source = source
        self.target = target or source
        self.home = home
        self.role = "postgres"
        self.has_processes = False
        self.project: Path | None = None
        """The dbt project; None for the shipped one."""
        self.given: dict[str, str] = {}
        """What every command has beside; it wins."""
        self.limits = short_pauses()
        """What loaders in the background have."""
        self._started: list[RunningLoader] = []

    @property
    def slot(self) -> str:
        return self.source.slot

    def install_declared(self, environment: Mapping[str, str]) -> None:
        """Install what LOADER_MANIFEST declares, as `dbt build` would."""
        install_declared(self.target.cluster.dsn(self.target.name), environment)

    @property
    def dsns(self) -> tuple[str, str]:
        """How to connect to the source and to the target."""
        source, target = (
            each.cluster.dsn(each.name, self.role) for each in (self.source, self.target)
        )
        return source, target

    @property
    def loader_settings(self) -> Settings:
        """The settings that the commands have."""
        source, target = self.dsns
        return Settings.of(source, target, self.slot, DEFAULT_SCHEMA)

    def by(self, role: str) -> Self:
        """Return the same system, whose commands run as another role."""
        other = copy.copy(self)
        other.role = role
        return other

    def environment(self, **more: str) -> dict[str, str]:
        """What a command needs: the profile, the source as libpq's own variables, another target.

        Nothing in it leads to another database or role.
        """
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)
        }
        project = {} if self.project is None else {"DBT_PROJECT_DIR": str(self.project)}
        target = {} if self.target is self.source else {"LOADER_TARGET_DSN": self.dsns[1]}
        return {
            **inherited,
            **profiles(self.home),
            **project,
            **self.source.cluster.environment(self.source.name, self.role),
            **self.source.settings,
            **target,
            **self.given,
            **more,
        }

    def dbt_environment(self, **more: str) -> dict[str, str]:
        """The same for dbt, whose profile takes the target from libpq's variables."""
        target = self.target.cluster.environment(self.target.name, self.role)
        return {**self.environment(), **target, **self.given, **more}

    def session(self, role: str) -> Connection:
        """Open a session of a role at the target, in autocommit mode."""
        return connect(self.target.cluster.dsn(self.target.name, role))

    # Commands, to their end.

    def call(self, program: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the project, or another program, to its end."""
        is_dbt = program == "dbt"
        environment = self.dbt_environment(**more) if is_dbt else self.environment(**more)
        if is_dbt and not self.has_processes:
            return run_dbt(arguments, environment)
        if program == "loader" and not self.has_processes:
            return run_loader(arguments, environment)
        return run([program, *arguments], environment)

    def do(self, program: str, *arguments: str, **more: str) -> str:
        """Run a command and return what it said; fail the test where it fails."""
        done = self.call(program, *arguments, **more)
        said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == 0, f"{program} {arguments} as {self.role}\n{said}"
        return done.stdout + done.stderr

    def spark_job(self, command: str, **more: str) -> str:
        """Run a job of Spark, as `spark-submit JOB FLAGS` is printed. Raises what it reports."""
        # Few tests need a JVM.
        from testkit.spark_jobs import run_job

        return run_job(command, self.environment(**more))

    def loader(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the loader to its end."""
        return self.call("loader", *arguments, **more)

    # Commands in the background.

    def spawn(self, program: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start a command as a process of its own."""
        environment = self.dbt_environment if program == "dbt" else self.environment
        return subprocess.Popen(
            [program, *arguments],
            env=environment(**more),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments: str, **more: str) -> RunningLoader:
        """Start a loader; its pauses between tries are short, unless it is the real command."""
        log = self.home / f"{self.slot}{len(self._started) + 1}.log"
        limits = None if self.has_processes else self.limits
        running = RunningLoader(self.environment(**more), log, *arguments, limits=limits)
        self._started.append(running)
        return running

    def follow(self, *arguments: str, **more: str) -> RunningLoader:
        """Start a loader and return it once it follows the slot."""
        running = self.start(*arguments, **more)
        running.wait_for("following the slot")
        return running

    def apply(self) -> None:
        """Call cdc.apply until no model that is the database's own is behind, as anybody may."""
        behind = "select 1 from cdc.apply(%s) as done where done.is_behind"
        while self.target.execute(behind, self.slot):
            pass

    def catch_up(self) -> None:
        """Stage what is committed, and apply it."""
        self.must("run", "--once")
        self.apply()

    def batch_of(self, size: int) -> None:
        """Let each apply take so many changes at once."""
        self.target.execute(
            "create or replace function cdc.batch_size() returns bigint language sql immutable"
            f" as 'select {size}::bigint'"
        )

    # What came of it.

    def states(self) -> dict[str, str]:
        """Return the state of each model, by name."""
        states = "select model_name, state from cdc.model_state where slot_name = %s"
        return dict(self.target.execute(states, self.slot))

    def staged(self) -> int:
        return self.target.staged()

    def differences(self) -> list[Difference]:
        """Return where the shipped model differs from a recount."""
        source, target = (each.cluster.dsn(each.name) for each in (self.source, self.target))
        return recount.differences(source, target, slot=self.slot)

    def wait_for_log(self) -> None:
        """Return once the loader that follows has staged what is committed now."""
        end = self.source.value("select pg_current_wal_insert_lsn()")
        staged = "select position_lsn >= %s::pg_lsn from cdc.slot_position where slot_name = %s"

        def is_staged() -> bool:
            # Something to pass for an idle loader, which takes what comes with its own writes for
            # one of these.
            self.source.execute("select pg_logical_emit_message(true, 'test', repeat(' ', 2048))")
            return bool(self.target.value(staged, end, self.slot))

        self._wait_for_loader(is_staged, "it is staged")

    def wait_for_staged(self, rows: int) -> None:
        """Return once so many rows are staged; fail where there are more of them."""
        self._wait_for_loader(lambda: self.staged() >= rows, f"{rows} rows are staged")
        staged = self.staged()
        assert staged == rows, f"{staged} rows are staged, not {rows}"

    def _wait_for_loader(self, condition: Callable[[], bool], claim: str) -> None:
        """Wait; fail with what the loader that was started last said, where it has ended."""
        last = self._started[-1] if self._started else None
        wait_until(lambda: condition() or (last and last.process.poll() is not None), claim)
        assert condition(), f"{claim}: {last and last.said()}"
