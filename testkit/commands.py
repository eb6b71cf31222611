"""The project's commands: the loader in this process or as one of its own, and dbt's profile."""

from __future__ import annotations

import gc
import importlib
import io
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing

from loader.cli import app
from loader.staging import migrate
from testkit.hostile import SECRET
from testkit.waiting import wait_until as wait_until
from waltally import failpoints
from waltally.limits import Limits, limits

ROOT = Path(__file__).parents[1]
LOADER = Path(sys.executable).parent / "loader"

# Most of what a command takes of this process: to make all commands with their options, and to put
# a schema's name into some hundred functions. Neither changes while tests run.
testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]
migrate.in_schema = cache(migrate.in_schema)


def short_pauses() -> Limits:
    """Return limits whose pauses a test can wait for; a loader has seconds to half a minute."""
    tries = (0.1, 0.3, 1.0, 2.0, 5.0)
    short = replace(limits, follow_again=tries, apply_again=0.2, look_behind=0.2)
    return replace(short, idle_seconds=0.2, read_lock=0.5, look_for_seeds=0.2, seed_again=0.5)


@contextmanager
def limited(others: Limits) -> Iterator[None]:
    """Let this process have other limits in the block."""
    before = dict(vars(limits))
    vars(limits).update(vars(others))
    try:
        yield
    finally:
        vars(limits).update(before)


def run(
    command: list[str], environment: Mapping[str, str] | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in the project's root to its end."""
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout
    )


def run_loader(
    arguments: tuple[str, ...], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the loader to its end, in this process where nothing needs one of its own.

    Python and the imports take half a second per process. A failpoint kills its process.
    """
    if "WALTALLY_KILL_AT" in environment:
        return run([str(LOADER), *arguments], environment)
    with only_environment(environment), _logging_as_it_was(), limited(short_pauses()):
        done = testing.CliRunner().invoke(app, list(arguments), prog_name="loader")
        said = done.stderr
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            said += "".join(traceback.format_exception(done.exception))
        command = ["loader", *arguments]
        ended = subprocess.CompletedProcess(command, done.exit_code, done.stdout, said)
    if ended.returncode:
        # The error's traceback holds connections, which the end of a process would close.
        del done
        gc.collect()
    return ended


def run_dbt(
    arguments: tuple[str, ...], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run dbt to its end, in this process: the imports take three seconds per process."""
    # Every start of pytest imports this module, and few runs need dbt.
    from dbt.cli.main import dbtRunner
    from dbt_common.behavior_flags import BehaviorFlagRendered
    from dbt_common.tests import enable_test_caching

    # A macro is parsed once, however many runs there are.
    enable_test_caching()
    # Each start looks through all modules of the process for the one that made each of its flags.
    BehaviorFlagRendered._default_source = staticmethod(lambda: "dbt")  # type: ignore[method-assign]
    # dbt never closes the log file that each invocation opens.
    options = ("--log-level-file", "none", "--no-send-anonymous-usage-stats")
    with only_environment(environment), redirect_stdout(io.StringIO()) as said:
        done = dbtRunner().invoke([*arguments, *options])
    failure = str(done.exception or "")
    return subprocess.CompletedProcess(
        ["dbt", *arguments], int(not done.success), said.getvalue(), failure
    )


class Commands:
    """The loader's and dbt's commands to their end, in the environment that a subclass gives."""

    def environment(self, **more: str) -> dict[str, str]:
        raise NotImplementedError

    def loader(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the loader to its end."""
        return run_loader(arguments, self.environment(**more))

    def install_declared(self, environment: Mapping[str, str]) -> None:
        """Install what LOADER_MANIFEST declares, as `dbt build` would."""
        raise NotImplementedError

    def must(self, *arguments: str, **more: str) -> str:
        """Run the loader and return its standard output; fail the test where it fails.

        After `setup` the declared models are installed.
        """
        done = self.loader(*arguments, **more)
        assert done.returncode == 0, done.stderr
        if arguments[0] == "setup" and "--check" not in arguments:
            self.install_declared(self.environment(**more))
        return done.stdout

    def status(self, **more: str) -> dict[str, Any]:
        """Return what `loader status --json` says, whatever it finds."""
        found: dict[str, Any] = json.loads(self.loader("status", "--json", **more).stdout)
        return found

    def refused(self, *arguments: str, **more: str) -> tuple[int, str]:
        """Run the loader, which must refuse; return its exit code and its errors with remedies."""
        done = self.loader(*arguments, **more)
        assert done.returncode, done.stdout
        findings = done.stderr.count("Error: ")
        assert findings == done.stderr.count("\nTry: "), done.stderr
        return done.returncode, sentence(done.stderr) if findings == 1 else done.stderr

    def refused_with(self, code: int, words: str, *arguments: str, **more: str) -> str:
        """Run the loader, which must refuse with this code and these words; return what it said."""
        found, said = self.refused(*arguments, **more)
        assert (found, words in said) == (code, True), f"{arguments}: {found}, {said}"
        return said


@contextmanager
def only_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Give this process this environment and no other."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _logging_as_it_was() -> Iterator[None]:
    """Put back the logging that a command sets up for the rest of its process."""
    logger = logging.getLogger("loader")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def _follow(
    environment: Mapping[str, str], log: Path, arguments: tuple[str, ...], others: Limits
) -> None:
    """Run `loader run` in a forked process, which ends with it."""
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    importlib.reload(failpoints)  # which has read the environment of the process before the fork
    with log.open("w") as out:
        os.dup2(out.fileno(), 2)
    vars(limits).update(vars(others))
    app(["run", *arguments], prog_name="loader")


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [__name__, "loader.verbs.run", "loader.capture.follow", "loader.monitoring.metrics"]
)


class Forked:
    """A loader forked from a process that has its modules already: half a second less. As Popen."""

    def __init__(self, *arguments: object) -> None:
        # With a folder of its own it would remove this one after the run's, in which it is.
        config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
        config.setdefault("tempdir", tempfile.gettempdir())
        self._process = _FORKS.Process(target=_follow, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    returncode = property(poll)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("loader", timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class RunningLoader:
    """A loader in the background, and what it has logged so far.

    Without limits it is the real command.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        log: Path,
        *arguments: str,
        limits: Limits | None = None,
        verb: str = "run",
    ) -> None:
        self._log = log
        self.process: Forked | subprocess.Popen[bytes]
        with log.open("w") as out:
            if limits:
                self.process = Forked(dict(environment), log, arguments, limits)
            else:
                command = [str(LOADER), verb, *arguments]
                self.process = subprocess.Popen(
                    command,
                    env=environment,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, words: str, times: int = 1) -> None:
        """Return once it has logged the words so often."""
        wait_until(
            lambda: self.said().count(words) >= times or self.process.poll() is not None, words
        )
        said = self.said()
        assert said.count(words) >= times, f"exit code {self.process.returncode}: {said}"

    def refuses(self) -> tuple[int, str]:
        """Return the exit code and the error of a loader that ends by itself."""
        wait_until(lambda: self.process.poll() is not None, f"it ends: {self.said()}")
        return self.process.wait(), sentence(self.said())

    def end(self) -> None:
        """Stop it cleanly."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=120) == 0, self.said()

    def __enter__(self) -> RunningLoader:
        return self

    def kill(self) -> None:
        """Kill it, where it still runs."""
        self.process.kill()
        self.process.wait()

    def __exit__(self, broken: object, *_: object) -> None:
        """Stop it, where it still runs; kill it where the test has failed."""
        if broken is None and self.process.poll() is None:
            self.end()
        self.kill()


def sentence(said: str) -> str:
    """Return the one error in what a command said, with its remedy and without a password."""
    assert "Traceback" not in said, said
    assert said.count("Error: ") == 1, said
    assert SECRET not in said
    error = said[said.index("Error: ") :]
    message, remedy = error.strip().split("\nTry: ")
    assert "\n" not in message + remedy, said
    return error


def profiles(home: Path) -> dict[str, str]:
    """Write dbt's profile into a folder, and return the environment that makes dbt use it."""
    (home / "profiles.yml").write_text((ROOT / "profiles.yml.example").read_text())
    return {
        "DBT_PROFILES_DIR": str(home),
        "DBT_TARGET_PATH": str(home / "target"),
        "DBT_LOG_PATH": str(home / "logs"),
        "PATH": f"{LOADER.parent}{os.pathsep}{os.environ['PATH']}",
    }
