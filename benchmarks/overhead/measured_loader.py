"""`loader run` beside an application's writers: what it stores and what it costs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from benchmarks.measure import ROOT
from benchmarks.overhead.conditions import Identity, set_identity
from benchmarks.overhead.cpu_pinning import LOADER_CORES, pinned_to
from benchmarks.workload import LOADER
from testkit.servers import Cluster
from testkit.source import transaction

SLOT = "overhead"


class MeasuredLoader:
    """`loader run` at work: how much it has stored, and what it costs where."""

    def __init__(self, dsn: str, target: Cluster, process: subprocess.Popen[bytes]) -> None:
        """Wait until it streams from the database at `dsn`."""
        self._dsn, self._target, self._process = dsn, target, process
        self._wait(lambda: self._walsender() is not None, "follow the slot")
        sender = self._walsender()
        assert sender is not None
        self._sender = psutil.Process(sender)
        self._loader = psutil.Process(process.pid)

    def sender_cpu(self) -> float:
        """Return the CPU seconds of the slot's WAL sender so far."""
        times = self._sender.cpu_times()
        return float(times.user + times.system)

    def loader_cpu(self) -> float:
        """Return the CPU seconds of the loader so far."""
        times = self._loader.cpu_times()
        return float(times.user + times.system)

    def wait_for(self, writes: int) -> None:
        """Wait until so many changes are staged. Raises RuntimeError where there are more."""
        self._wait(lambda: self.stored() >= writes, f"store {writes} changes")
        if (stored := self.stored()) != writes:
            raise RuntimeError(f"{stored} changes are staged after {writes} writes")

    def stored(self) -> int:
        """Return how many changes are in the change log."""
        with transaction(self._target.dsn()) as cursor:
            cursor.execute("select count(*) from cdc.change_log")
            ((count,),) = cursor.fetchall()
        return int(count)

    def _walsender(self) -> int | None:
        with transaction(self._dsn) as cursor:
            cursor.execute(
                "select active_pid from pg_replication_slots where slot_name = %s", (SLOT,)
            )
            ((pid,),) = cursor.fetchall()
        return None if pid is None else int(pid)

    def _wait(self, is_done: Callable[[], bool], what: str) -> None:
        patience = time.monotonic() + 60
        while not is_done():
            if self._process.poll() is not None or time.monotonic() > patience:
                raise RuntimeError(f"the loader did not {what}")
            time.sleep(0.1)


@contextmanager
def measured_loader(dsn: str, target: Cluster, identity: Identity) -> Iterator[MeasuredLoader]:
    """Follow the database at `dsn` into `target`, from a new slot, with the identity given.

    `loader setup` refuses an identity that does not carry the dimensions, so the slot is made
    under identity full and the identity changed before the loader starts.
    """
    environment = {
        **os.environ,
        "LOADER_SOURCE_DSN": dsn,
        "LOADER_TARGET_DSN": target.dsn(),
        "LOADER_SLOT": SLOT,
    }
    set_identity(dsn, "full")
    _loader(environment, "setup")
    set_identity(dsn, identity)
    with pinned_to(LOADER_CORES):
        process = subprocess.Popen(
            [LOADER, "run"],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        yield MeasuredLoader(dsn, target, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        _loader(environment, "teardown", "--purge", "--yes")


def _loader(environment: dict[str, str], *words: str) -> None:
    done = subprocess.run(
        [LOADER, *words], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"loader {' '.join(words)} failed:\n{done.stderr}")
