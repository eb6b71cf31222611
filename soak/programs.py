"""The project's programs in a soak: run to the end, started, or kept running whatever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from testkit.commands import ROOT


class SoakFailed(Exception):
    """A promise does not hold; the message says which and shows it."""


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a spawned command and every process that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_NEEDS_OPERATOR = frozenset({1, 2, 11, 15, 17, 20, 21, 23, 27, 35, 36, 38})
"""Exit codes after which a restart does not help (docs/runbook.md)."""

_RESTART_SECONDS = 0.1
_STOP_SECONDS = 60.0


class Service:
    """Runs a command until stopped; a change of `arguments` takes effect at its next start."""

    def __init__(self, environment: Mapping[str, str], log: Path, command: Sequence[str]) -> None:
        self.arguments: list[str] = []
        self.exits: Counter[int] = Counter()
        self._command, self._log = command, log
        # SIGABRT then writes the stack of every thread to the log.
        self._environment = {**environment, "PYTHONFAULTHANDLER": "1"}
        self._stopping = threading.Event()
        # Between the check and the start of a process no `stop` may signal the one before.
        self._starting = threading.Lock()
        self._failure = ""
        self.start()

    def start(self) -> None:
        """Start it, and again whenever it ends."""
        self._stopping.clear()
        self._process = self._spawn()
        self._thread = threading.Thread(target=self._keep_running, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it by SIGTERM. Raises SoakFailed where it does not end, or ends with an error."""
        self._end_by(signal.SIGTERM)
        if self._thread.is_alive():
            self._end_by(signal.SIGABRT)
            self._failure = f"the {self._log.stem} ignored SIGTERM for {_STOP_SECONDS:g} s"
        self.check()

    def close(self) -> None:
        """Kill it for good."""
        self._end_by(signal.SIGKILL)

    def _end_by(self, number: signal.Signals) -> None:
        with self._starting:
            self._stopping.set()
        self.signal(number)
        self._thread.join(_STOP_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def kill(self, *arguments: str) -> None:
        """Kill it; the next one has these arguments."""
        self.arguments = list(arguments)
        self.signal(signal.SIGKILL)

    def processes(self) -> list[psutil.Process]:
        """Return its process and what that has started, none between two of them."""
        with suppress(psutil.NoSuchProcess):
            if self._process.poll() is None:
                own = psutil.Process(self._process.pid)
                return [own, *own.children(recursive=True)]
        return []

    def check(self) -> None:
        """Raise SoakFailed where the loader has ended with a code that needs an operator."""
        if self._failure:
            raise SoakFailed(f"{self._failure}:\n{self.last_log_lines()}")

    def last_log_lines(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-60:])

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                [*self._command, *self.arguments],
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _keep_running(self) -> None:
        while True:
            code = self._process.wait()
            self.exits[code] += 1
            # With 2 the driver ends while the database has the model.
            is_fine = code == 2 and self._log.stem == "driver"
            if code in _NEEDS_OPERATOR and not is_fine:
                self._failure = f"the {self._log.stem} needs an operator, exit code {code}"
            elif code > 0 and self._stopping.is_set():
                self._failure = f"stopping ended with exit code {code}"
            self._stopping.wait(_RESTART_SECONDS)
            with self._starting:
                if self._stopping.is_set():
                    return
                self._process = self._spawn()
