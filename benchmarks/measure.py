"""What a run costs: time, CPU seconds of each server and of the program itself, peak memory."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from testkit.servers import Cluster

ROOT = Path(__file__).parent.parent

_POLL = 0.02
_SETTLE = 0.25
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.M)
_SAMPLE = 0.25


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    seconds: float
    program: float
    """CPU seconds of the program and of the children it waited for."""
    servers: Mapping[str, float]
    """CPU seconds of every process of each cluster, background workers too."""
    peak_bytes: int
    """The most memory that the program's own process held."""
    output: str


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


def server_cpu(cluster: Cluster) -> float:
    """Return the CPU seconds of all of a cluster's processes, once they are idle.

    Processes that have ended are included. One that ends during the reading would be missed, so
    the processes are read until nothing changes.
    """
    now, last = _read_cpu(cluster), -1.0
    while now != last:
        time.sleep(_SETTLE)
        now, last = _read_cpu(cluster), now
    return now


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process so far, without its children's; 0 where it is gone."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _read_cpu(cluster: Cluster) -> float:
    postmaster = psutil.Process(int((cluster.data / "postmaster.pid").read_text().split()[0]))
    ended = postmaster.cpu_times()
    backends = sum(cpu_seconds(each) for each in (postmaster, *postmaster.children()))
    return float(ended.children_user + ended.children_system + backends)


def run(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    clusters: Mapping[str, Cluster],
) -> Cost:
    """Run a command to its end. Raises RuntimeError with what it printed where it fails."""
    before = {name: server_cpu(cluster) for name, cluster in clusters.items()}
    spent = psutil.Process().cpu_times()
    began = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in command],
        env=dict(environment),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_bytes(process.pid))
        time.sleep(_POLL)
    seconds = time.monotonic() - began
    output, _ = process.communicate()
    now = psutil.Process().cpu_times()
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed with {process.returncode}:\n{output}")
    return Cost(
        seconds=seconds,
        program=now.children_user
        + now.children_system
        - spent.children_user
        - spent.children_system,
        servers={name: server_cpu(cluster) - before[name] for name, cluster in clusters.items()},
        peak_bytes=peak,
        output=output,
    )


def peak_bytes(pid: int) -> int:
    """Return the most memory a process has held, 0 where it is gone."""
    try:
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


class PeakMemory:
    """The most memory of this process's descendants, such as a JVM and its Python workers.

    Forked workers share pages; each page counts once. Of each process its own peak is taken.
    """

    def __init__(self) -> None:
        self._peaks: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def peak_bytes(self) -> int:
        """The sum over all processes."""
        return sum(self._peaks.values())

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE):
            for process in psutil.Process().children(recursive=True):
                try:
                    found = _PSS.search(Path(f"/proc/{process.pid}/smaps_rollup").read_text())
                except OSError:
                    continue
                if found:
                    held = int(found[1]) * 1024
                    self._peaks[process.pid] = max(self._peaks.get(process.pid, 0), held)
