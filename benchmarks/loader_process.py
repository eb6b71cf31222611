"""`loader run --build` as a process: its environment, its log, its stop."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil

from benchmarks.measure import ROOT, cpu_seconds
from benchmarks.workload import LOADER, environment
from testkit.servers import Cluster
from testkit.source import transaction

_PATIENCE = 120.0
_BUILT = re.compile(r"built in ([0-9.]+) s")


class LoaderProcess:
    """The running loader."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """`process` writes its standard error into the file `log`."""
        self._process, self._log = process, log
        self.began = time.time()
        """When the process was started, on this machine's clock."""

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of the loader so far."""
        return cpu_seconds(psutil.Process(self._process.pid))

    def sessions_cpu_seconds(self, server: Cluster) -> float:
        """Return the CPU seconds of its sessions so far; others' are named `benchmark`."""
        with transaction(server.dsn()) as cursor:
            cursor.execute(
                "select pid from pg_stat_activity where pid <> pg_backend_pid() "
                "and backend_type in ('client backend', 'walsender') "
                "and application_name <> 'benchmark'"
            )
            pids = [int(pid) for (pid,) in cursor.fetchall()]
        return sum(cpu_seconds(psutil.Process(pid)) for pid in pids)

    def check(self) -> None:
        """Raise RuntimeError, with the end of its log, if the loader has ended by itself."""
        if self._process.poll() is not None:
            raise self._failure(f"ended with {self._process.returncode}")

    def builds(self) -> list[float]:
        """Return the seconds that each build took."""
        return [float(found) for found in _BUILT.findall(self._log.read_text())]

    def stop(self) -> None:
        """Stop it as a service manager would. Raises RuntimeError where its exit code is not 0."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not stop within {_PATIENCE:.0f} s") from None
        # Java, which is spark-submit's process, ends by the signal.
        if code not in (0, 128 + signal.SIGTERM):
            raise self._failure(f"ended with {code}")

    def _failure(self, what: str) -> RuntimeError:
        return RuntimeError(f"the loader {what}:\n{self._log.read_text()[-2000:]}")


def running_loader(
    source: Cluster, target: Cluster, slot: str, *more: str
) -> AbstractContextManager[LoaderProcess]:
    """Follow the slot and apply the models; stopped at the end of the block at the latest."""
    command = [str(LOADER), "run", "--build", "--verbose", *more]
    return running(command, environment(source, target, slot))


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[LoaderProcess]:
    """Run the command, which is a loader's; stopped at the end of the block at the latest."""
    with tempfile.TemporaryDirectory(prefix="waltally-loader-") as name:
        log = Path(name) / "loader.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        try:
            loader = LoaderProcess(process, log)
            yield loader
            loader.stop()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
