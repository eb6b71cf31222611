"""The loader as a service: started again whenever it ends, whatever its exit code."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.soak.failure import SoakFailed
from tests.support import LOADER, ROOT

NEEDS_A_PERSON = frozenset({1, 2, *range(11, 24), 25, 27, 35, 36, 38, 43})
"""Exit codes of the loader that waiting and starting again do not heal (README)."""

_PAUSE = 0.1
_PATIENCE = 60.0


class Service:
    """Runs `loader run` until stopped; `arguments` count from its next start."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.arguments: list[str] = []
        self.exits: Counter[int] = Counter()
        self._environment = environment
        self._log = log
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._last_exit = 0
        self._refusal = ""

    def start(self) -> None:
        """Start it, and again whenever it ends."""
        self._stopping.clear()
        self._process = self._spawn()
        self._thread = threading.Thread(target=self._tend, name="service manager", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it by SIGTERM, as a service manager does. Raises SoakFailed unless it obeys."""
        self._stopping.set()
        if self._thread is None:
            return
        self.signal(signal.SIGTERM)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            self.signal(signal.SIGKILL)
            raise SoakFailed(f"the loader ignored SIGTERM for {_PATIENCE:g} s:\n{self.said()}")
        self._thread = None
        self.check()
        if self._last_exit > 0:
            raise SoakFailed(f"stopped, it ended with exit code {self._last_exit}:\n{self.said()}")

    def signal(self, number: signal.Signals) -> None:
        """Send the present process a signal, if it lives."""
        if self._process is not None:
            self._process.send_signal(number)

    def check(self) -> None:
        """Raise SoakFailed where the loader has ended with a code that asks for a person."""
        if self._refusal:
            raise SoakFailed(self._refusal)

    def said(self) -> str:
        """Return the last lines that it logged."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-25:])

    def close(self) -> None:
        """Kill it for good."""
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

    def _tend(self) -> None:
        while self._process is not None:
            code = self._process.wait()
            self.exits[code] += 1
            self._last_exit = code
            if code in NEEDS_A_PERSON:
                self._refusal = f"the loader asks for a person, exit code {code}:\n{self.said()}"
            if self._stopping.wait(_PAUSE):
                return
            self._process = self._spawn()
