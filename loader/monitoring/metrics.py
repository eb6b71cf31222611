"""What `loader run --metrics-port` serves: metrics and health (docs/metrics.md)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from loader.capture.events import BuildBroke, Built, Committed, Failed, Following, Notify, RunState
from loader.capture.events import Event as RunEvent
from loader.monitoring import http_server
from loader.monitoring.gauges import GaugeCollector
from loader.monitoring.health import Health
from waltally.errors import LoaderError, SettingError
from waltally.settings import Settings

_CHANGES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FRESHNESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 1_800, 7_200)


class Metrics:
    """Counts the events of a run, labelled with the slot, in a registry of its own."""

    def __init__(self, slot: str, registry: CollectorRegistry) -> None:
        """Register everything; a counter that nothing has touched yet is served as 0."""
        # The client would add a second series per metric with its start time, which nobody uses.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

        def counter(name: str, meaning: str) -> Counter:
            return Counter(name, meaning, ["slot"], registry=registry).labels(slot)

        def histogram(name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
            made = Histogram(name, meaning, ["slot"], registry=registry, buckets=buckets)
            return made.labels(slot)

        self._slot = slot
        self._following = Gauge(
            "waltally_following",
            "1 while the slot is streamed, 0 while the loader waits to try again.",
            ["slot"],
            registry=registry,
        ).labels(slot)
        self._changes = counter("waltally_staged_changes", "Changes appended to the change log.")
        self._transactions = counter(
            "waltally_staged_transactions", "Source transactions with changes that were appended."
        )
        self._commits = counter(
            "waltally_commits",
            "Commits at the target: one a batch, and one where the position moves alone.",
        )
        self._reconnects = counter(
            "waltally_reconnects", "How often following broke and was tried again."
        )
        self._errors = Counter(
            "waltally_errors",
            "Failures by kind, of following and of builds.",
            ["slot", "kind"],
            registry=registry,
        )
        self._last_error = Gauge(
            "waltally_last_error_timestamp_seconds",
            "When a failure of the kind last happened, in seconds since 1970.",
            ["slot", "kind"],
            registry=registry,
        )
        self._batch_changes = histogram("waltally_batch_changes", "Changes in a batch.", _CHANGES)
        self._batch_seconds = histogram(
            "waltally_batch_duration_seconds",
            "From a batch's first change until its commit.",
            _SECONDS,
        )
        self._build_seconds = histogram(
            "waltally_build_duration_seconds",
            "A build of all models that succeeded; the first one includes loading dbt.",
            _SECONDS,
        )
        self._build_failures = counter("waltally_build_failures", "Builds that failed.")
        self._freshness = Histogram(
            "waltally_freshness_seconds",
            "From the commit at the source to the end of the build that made it visible in the "
            "fact: the newest change of each build.",
            ["slot", "fact"],
            registry=registry,
            buckets=_FRESHNESS,
        )

    def __call__(self, event: RunEvent) -> None:
        """Count an event."""
        match event:
            case Following():
                self._following.set(1)
            case Committed(changes, transactions, seconds):
                self._commits.inc()
                if changes:
                    self._changes.inc(changes)
                    self._transactions.inc(transactions)
                    self._batch_changes.observe(changes)
                    self._batch_seconds.observe(seconds)
            case Failed(error, retried):
                self._following.set(0)
                self._count(error)
                if retried:
                    self._reconnects.inc()
            case Built(seconds, freshness):
                self._build_seconds.observe(seconds)
                for model, age in freshness.items():
                    self._freshness.labels(self._slot, model).observe(age)
            case BuildBroke(error):
                self._build_failures.inc()
                self._count(error)

    def _count(self, error: LoaderError) -> None:
        kind = type(error).__name__
        self._errors.labels(self._slot, kind).inc()
        self._last_error.labels(self._slot, kind).set(time.time())


@contextmanager
def served(
    settings: Settings,
    run_state: RunState,
    stop: Event,
    threads: Iterable[str],
    address: str,
    port: int,
) -> Iterator[Notify]:
    """Serve metrics and probes over HTTP in threads that end with the process.

    Yield what takes the run's events. `threads` are the names of those that must run until `stop`
    is set. Raises SettingError where the address or the port cannot be had.
    """
    registry = CollectorRegistry()
    gauges = GaugeCollector(settings, run_state)
    metrics = Metrics(settings.slot, registry)
    health = Health(run_state, stop, threads, gauges.lag_seconds, gauges.failed_facts)
    registry.register(gauges)

    def notify(event: RunEvent) -> None:
        metrics(event)
        health(event)

    page = prometheus_client.make_wsgi_app(registry)
    probes = {"/healthz": health.alive, "/readyz": health.ready}
    with ExitStack() as stack:
        try:
            stack.enter_context(http_server.served(address, port, page, probes))
        except OSError as error:
            raise SettingError(
                f"Metrics cannot be served on {address} port {port}: {error.strerror or error}",
                "set LOADER_METRICS_PORT to a free port and LOADER_METRICS_ADDRESS to an address "
                "of this machine",
            ) from error
        gauges.start()
        stack.callback(gauges.close)
        yield notify
