"""The most memory that Spark's processes hold during a run."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 0.25
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.M)


class PeakMemory:
    """Samples this process's descendants; forked workers share pages, so each page counts once."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            now: dict[str, int] = {}
            for process in psutil.Process().children(recursive=True):
                try:
                    kind = _kind(process)
                    found = _PSS.search(Path(f"/proc/{process.pid}/smaps_rollup").read_text())
                except (OSError, psutil.Error):
                    continue
                if kind and found:
                    now[kind] = now.get(kind, 0) + int(found[1]) * 1024
            for kind, held in now.items():
                self.peaks[kind] = max(self.peaks.get(kind, 0), held)


def _kind(process: psutil.Process) -> str | None:
    name = process.name()
    if name == "java":
        return "JVM"
    if not name.startswith("python"):
        return None
    modules = [word for word in process.cmdline() if word.startswith("pyspark.")]
    return "Python workers" if modules else "driver's Python"
