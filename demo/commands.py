"""The demo's subprocesses: printed as typed, quiet unless they fail, ended with the demo."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from demo.progress import timed

_PATIENCE = 30.0
"""Seconds that a process has to stop on SIGTERM."""
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


class CommandFailed(RuntimeError):
    """A command failed; the message has the end of its output."""


class Commands:
    """Runs commands with one environment; their output goes to files in `logs`."""

    def __init__(
        self, cwd: Path, environment: Mapping[str, str], logs: Path, console: Console
    ) -> None:
        self._cwd, self._environment, self._logs = cwd, dict(environment), logs
        self._console = console
        self._logged: dict[int, Path] = {}
        self._running: list[subprocess.Popen[bytes]] = []

    def export(self, name: str, value: str) -> None:
        """Set an environment variable for the commands from here on."""
        self._show(f"export {name}={shlex.quote(value)}")
        self._environment[name] = value

    def run(self, *command: str, **more: str) -> None:
        """Run the command to its end and print how long it took; raise CommandFailed.

        `more` is added to its environment.
        """
        self._show(_typed(command, more), end="")
        process = self._open(command, more)
        with timed(self._console, lambda: self._newest_line(process)):
            self.check(process)

    def start(self, *command: str, **more: str) -> subprocess.Popen[bytes]:
        """Start the command in the background; `more` is added to its environment."""
        self._show(f"{_typed(command, more)} &")
        return self._open(command, more)

    def _open(self, command: Sequence[str], more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        log = self._logs / f"{len(self._logged) + 1} {Path(command[0]).name}.log"
        try:
            with log.open("wb") as output:
                # A new session: Ctrl-C reaches only the demo, which then ends its children.
                process = subprocess.Popen(
                    list(command),
                    cwd=self._cwd,
                    env={**self._environment, **more},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except FileNotFoundError:
            raise CommandFailed(f"{command[0]} is not installed.\nTry: make install") from None
        self._logged[process.pid] = log
        self._running.append(process)
        return process

    def _newest_line(self, process: subprocess.Popen[bytes]) -> str:
        """Return the newest line of the process's output."""
        lines = self._logged[process.pid].read_text(errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "running")
        return _COLORS.sub("", said).strip()[:100]

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Ask the process to stop as a supervisor would, by SIGTERM; raise CommandFailed."""
        self._show(f"kill -TERM {process.pid}", end="")
        with timed(self._console, lambda: self._newest_line(process)):
            process.terminate()
            self.check(process, _PATIENCE)

    def check(self, process: subprocess.Popen[bytes], timeout: float | None = None) -> None:
        """Wait for the process; raise CommandFailed unless its exit code is 0."""
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise self.failure(process, f"did not stop in {timeout:.0f} s") from None
        if code:
            raise self.failure(process, f"ended with exit code {code}")

    def failure(self, process: subprocess.Popen[bytes], what: str) -> CommandFailed:
        """Return the error that shows the end of the process's output."""
        log = self._logged[process.pid]
        output = log.read_text(errors="replace").splitlines()
        shown = "\n".join(f"    {line}" for line in output[-60:])
        return CommandFailed(f"{log.stem} {what}:\n{shown}")

    def _show(self, line: str, end: str = "\n") -> None:
        prompt = Text.assemble(("$ ", "green"), (line, "bold"))
        self._console.print(prompt, end=end, soft_wrap=True)

    def end_all(self) -> None:
        """End every process that still runs, and its children."""
        for process in self._running:
            for how in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, how)
                    try:
                        process.wait(_PATIENCE if how == signal.SIGTERM else None)
                    except subprocess.TimeoutExpired:
                        continue


def _typed(command: Sequence[str], more: Mapping[str, str]) -> str:
    """Return the command as a person types it, with its additions to the environment."""
    assignments = "".join(f"{name}={shlex.quote(value)} " for name, value in more.items())
    return assignments + shlex.join(command)
