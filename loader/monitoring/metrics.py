"""What `loader run --metrics-port` serves: metrics and health (docs/monitoring.md)."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from threading import Event
from types import MappingProxyType
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, MetricsHandler

from loader.capture.events import BuildBroke, Built, Committed, Failed, Following, Notify, RunState
from loader.capture.events import Event as RunEvent
from loader.monitoring.gauges import GaugeCollector
from loader.monitoring.health import Answer, Health
from waltally.errors import LoaderError, SettingError
from waltally.settings import Settings

Probes = Mapping[str, Callable[[], Answer]]


class Handler(MetricsHandler):
    """Answers one request. The client's own handler serves the metrics, and logs nothing."""

    timeout = 30.0
    """Seconds without a byte. Each client that vanished would hold its thread for ever."""
    probes: Probes = MappingProxyType({})

    def do_GET(self) -> None:
        """Answer with the metrics, or 200 or 503 and one line."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            super().do_GET()
        elif path in self.probes:
            answer = self.probes[path]()
            self._say(200 if answer.is_good else 503, answer.line)
        else:
            # Not the metrics: a probe of a misspelt path would always succeed.
            self._say(404, f"there is {', '.join(['/metrics', *self.probes])}")

    do_HEAD = do_GET

    def _say(self, status: int, line: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(f"{line}\n".encode())


class _Server(ThreadingHTTPServer):
    """A thread per request; they end with the process."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away: a load balancer's check may end by a reset."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def answered(
    address: str, port: int, registry: CollectorRegistry, probes: Probes
) -> Iterator[None]:
    """Serve the metrics at /metrics and each probe at its own path, within the block.

    Raises OSError where the port cannot be had.
    """
    family, *_, socket_address = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    handler = type("Handler", (Handler,), {"registry": registry, "probes": probes})
    server_class = type("Server", (_Server,), {"address_family": family})
    server = server_class(socket_address[:2], handler)
    threading.Thread(target=server.serve_forever, name="http server", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


_CHANGES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FRESHNESS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 1_800, 7_200)


def _histogram(buckets: tuple[float, ...]) -> Any:
    return partial(Histogram, buckets=buckets)


_METRICS: dict[str, tuple[Any, ...]] = {
    "following": (Gauge, "1 while the slot is streamed, 0 while the loader waits to try again."),
    "staged_changes": (Counter, "Changes appended to the change log."),
    "staged_transactions": (Counter, "Source transactions that were appended."),
    "commits": (Counter, "Commits at the target."),
    "reconnects": (Counter, "How often following broke and was tried again."),
    "errors": (Counter, "Failures by kind, of following and of builds.", "kind"),
    "last_error_timestamp_seconds": (
        Gauge,
        "When a failure of the kind last happened, in seconds since 1970.",
        "kind",
    ),
    "batch_changes": (_histogram(_CHANGES), "Changes in a batch."),
    "batch_duration_seconds": (
        _histogram(_SECONDS),
        "From a batch's first change until its commit.",
    ),
    "build_duration_seconds": (
        _histogram(_SECONDS),
        "A build of all models that succeeded.",
    ),
    "build_failures": (Counter, "Builds that failed."),
    "freshness_seconds": (
        _histogram(_FRESHNESS),
        "From the commit at the source until it is visible in the model.",
        "model",
    ),
}
"""By name, what it is, its meaning, and the label beside the slot."""


class Metrics:
    """Counts the events of a run, labelled with the slot, in a registry of its own."""

    def __init__(self, slot: str, registry: CollectorRegistry) -> None:
        """Register everything; a counter that nothing has touched yet is served as 0."""
        # The client would add a second series per metric with its start time, which nobody uses.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._slot = slot
        self._metrics = {
            name: make(f"waltally_{name}", meaning, ["slot", *labels], registry=registry)
            for name, (make, meaning, *labels) in _METRICS.items()
        }
        for name, (_, _, *labels) in _METRICS.items():
            if not labels:
                self._get(name)

    def _get(self, name: str, *labels: str) -> Any:
        return self._metrics[name].labels(self._slot, *labels)

    def __call__(self, event: RunEvent) -> None:
        """Count an event."""
        match event:
            case Following():
                self._get("following").set(1)
            case Committed(changes, transactions, seconds):
                self._get("commits").inc()
                if changes:
                    self._get("staged_changes").inc(changes)
                    self._get("staged_transactions").inc(transactions)
                    self._get("batch_changes").observe(changes)
                    self._get("batch_duration_seconds").observe(seconds)
            case Failed(error, retried):
                self._get("following").set(0)
                self._count(error)
                if retried:
                    self._get("reconnects").inc()
            case Built(seconds, freshness):
                self._get("build_duration_seconds").observe(seconds)
                for model, age in freshness.items():
                    self._get("freshness_seconds", model).observe(age)
            case BuildBroke(error):
                self._get("build_failures").inc()
                self._count(error)

    def _count(self, error: LoaderError) -> None:
        kind = type(error).__name__
        self._get("errors", kind).inc()
        self._get("last_error_timestamp_seconds", kind).set(time.time())


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
    health = Health(run_state, stop, threads, gauges.lag_seconds, gauges.failed_models)
    registry.register(gauges)

    def notify(event: RunEvent) -> None:
        metrics(event)
        health(event)

    probes = {"/healthz": health.alive, "/readyz": health.ready}
    with ExitStack() as stack:
        try:
            stack.enter_context(answered(address, port, registry, probes))
        except OSError as error:
            raise SettingError(
                f"Metrics cannot be served on {address} port {port}: {error.strerror or error}",
                "set LOADER_METRICS_PORT to a free port and LOADER_METRICS_ADDRESS to an address "
                "of this machine",
            ) from error
        gauges.start()
        stack.callback(gauges.close)
        yield notify
