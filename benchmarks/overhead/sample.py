"""One measurement of what writes cost the source, with one condition beside them."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.measure import server_cpu
from benchmarks.overhead.application import TEMPLATES, Application
from benchmarks.overhead.conditions import (
    NOTHING,
    Condition,
    check_triggers,
    make_triggers,
    set_identity,
)
from benchmarks.overhead.measured_loader import MeasuredLoader, measured_loader
from benchmarks.overhead.pgbench import Written, write
from testkit.servers import Cluster


@dataclass(frozen=True)
class Sample:
    """What one measurement found, in three runs of the writers."""

    per_second: float
    """As fast as it goes, each commit on disk before the next write."""
    mean_ms: float
    p95_ms: float
    rate: float
    """Writes per second that were reached at the fixed rate; the latency belongs to them."""
    per_second_unawaited: float
    """A fixed number of writes that do not wait for the disk. The fields below belong to this run:
    CPU in microseconds per write, WAL in bytes per write."""
    source_cpu: float
    """All of the source server's processes, the WAL sender too."""
    sender_cpu: float
    loader_cpu: float
    """The loader's and the target server's."""
    wal: float
    """Records without full pages."""
    full_pages: float


@dataclass(frozen=True)
class Sampler:
    """Takes samples: the servers, and how long the writers run, in seconds or in writes."""

    application: Application
    target: Cluster
    seconds: int
    writes: int

    def fastest(self, seed: int) -> float:
        """Return the writes per second with nothing beside the writers."""
        with self.application.copy(NOTHING.wal_level):
            self.application.warm()
            return self._write(seed).per_second

    def sample(self, condition: Condition, seed: int, rate: float) -> Sample:
        """Measure one condition once: without waits, at the rate, as fast as it goes.

        Raises RuntimeError where the change log has other than the writes, or the triggers'
        counts differ from a recount.
        """
        with self.application.copy(condition.wal_level) as dsn:
            if condition.is_followed:
                with measured_loader(dsn, self.target, condition.identity) as loader:
                    return self._run_writers(loader, seed, rate)
            set_identity(dsn, condition.identity)
            if condition.triggers is None:
                return self._run_writers(None, seed, rate)
            make_triggers(dsn, condition.triggers)
            sample = self._run_writers(None, seed, rate)
            check_triggers(dsn)
            return sample

    def _run_writers(self, loader: MeasuredLoader | None, seed: int, rate: float) -> Sample:
        application = self.application
        application.warm()
        begin, before = application.checkpoint(), self._cpu(loader)
        counted = self._write(seed, writes=self.writes, awaits_commit=False)
        written = counted.writes
        _drain(loader, written)
        end = application.wal_end()
        source_cpu, sender_cpu, loader_cpu = (
            (now - was) * 1e6 / counted.writes
            for now, was in zip(self._cpu(loader), before, strict=True)
        )
        wal, full_pages = application.wal_bytes(begin, end)

        application.checkpoint()
        paced = self._write(seed + 1, rate=rate)
        written += paced.writes
        _drain(loader, written)

        application.checkpoint()
        fastest = self._write(seed + 2)
        written += fastest.writes
        _drain(loader, written)
        return Sample(
            per_second=fastest.per_second,
            mean_ms=paced.mean_ms,
            p95_ms=paced.p95_ms,
            rate=paced.per_second,
            per_second_unawaited=counted.per_second,
            source_cpu=source_cpu,
            sender_cpu=sender_cpu,
            loader_cpu=loader_cpu,
            wal=wal / counted.writes,
            full_pages=full_pages / counted.writes,
        )

    def _cpu(self, loader: MeasuredLoader | None) -> tuple[float, float, float]:
        """Return the CPU seconds so far of the source, of its WAL sender, and elsewhere."""
        spent = server_cpu(self.application.cluster)
        if loader is None:
            return spent, 0.0, 0.0
        return spent, loader.sender_cpu(), loader.loader_cpu() + server_cpu(self.target)

    def _write(
        self,
        seed: int,
        *,
        writes: int | None = None,
        rate: float | None = None,
        awaits_commit: bool = True,
    ) -> Written:
        return write(
            self.application.dsn,
            rows=self.application.rows,
            templates=TEMPLATES,
            seed=seed,
            seconds=self.seconds,
            writes=writes,
            rate=rate,
            awaits_commit=awaits_commit,
        )


def _drain(loader: MeasuredLoader | None, written: int) -> None:
    """Wait until the loader has stored the writes. Raises RuntimeError where it stored others."""
    if loader is not None:
        loader.wait_for(written)
