"""Keeps a loader running: starts it again whenever it ends, whatever its exit code."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.soak.failure import SoakFailed
from tests.support import LOADER, ROOT

NEEDS_OPERATOR = frozenset({1, 2, *range(11, 24), 25, 27, 35, 36, 38, 43})
"""Exit codes after which a restart does not help (docs/reference.md)."""

_RESTART_SECONDS = 0.1
_STOP_SECONDS = 60.0


class LoaderService:
    """Runs `loader run` until stopped; a change of `arguments` takes effect at its next start."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.arguments: list[str] = []
        self.exits: Counter[int] = Counter()
        # SIGABRT then writes the stack of every thread to the log.
        self._environment = {**environment, "PYTHONFAULTHANDLER": "1"}
        self._log = log
        self._stopping = threading.Event()
        # Between the check and the start of a process no `stop` may signal the one before.
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._last_exit = 0
        self._failure = ""

    def start(self) -> None:
        """Start it, and again whenever it ends."""
        self._stopping.clear()
        self._process = self._spawn()
        self._thread = threading.Thread(target=self._keep_running, name="loader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it by SIGTERM. Raises SoakFailed where it does not end, or ends with an error."""
        with self._starting:
            self._stopping.set()
        if self._thread is None:
            return
        self.signal(signal.SIGTERM)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            self.signal(signal.SIGABRT)
            self._thread.join(_STOP_SECONDS)
            raise SoakFailed(
                f"the loader ignored SIGTERM for {_STOP_SECONDS:g} s:\n{self.last_log_lines()}"
            )
        self._thread = None
        self.check()
        if self._last_exit > 0:
            raise SoakFailed(
                f"stopping ended with exit code {self._last_exit}:\n{self.last_log_lines()}"
            )

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal, if there is one."""
        if self._process is not None:
            self._process.send_signal(number)

    def check(self) -> None:
        """Raise SoakFailed where the loader has ended with a code that needs an operator."""
        if self._failure:
            raise SoakFailed(self._failure)

    def last_log_lines(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-60:])

    def close(self) -> None:
        """Kill it for good."""
        with self._starting:
            self._stopping.set()
        self.signal(signal.SIGKILL)
        if self._thread is not None:
            self._thread.join()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                [str(LOADER), "run", *self.arguments],
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _keep_running(self) -> None:
        while self._process is not None:
            code = self._process.wait()
            self.exits[code] += 1
            self._last_exit = code
            if code in NEEDS_OPERATOR:
                self._failure = (
                    f"the loader needs an operator, exit code {code}:\n{self.last_log_lines()}"
                )
            self._stopping.wait(_RESTART_SECONDS)
            with self._starting:
                if self._stopping.is_set():
                    return
                self._process = self._spawn()
