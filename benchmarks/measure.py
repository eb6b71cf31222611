"""What a run costs: time, CPU seconds of each server and of the program itself, peak memory."""

from __future__ import annotations

import re
import subprocess
import sys
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


def _read_cpu(cluster: Cluster) -> float:
    postmaster = psutil.Process(int((cluster.data / "postmaster.pid").read_text().split()[0]))
    times = postmaster.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for backend in postmaster.children():
        try:
            own = backend.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += own.user + own.system
    return float(total)


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
