"""The HTTP server of `loader run --metrics-port`: metrics and what probes ask, on one port."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from types import MappingProxyType

from prometheus_client import CollectorRegistry, MetricsHandler

from loader.monitoring.health import Answer

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
def served(address: str, port: int, registry: CollectorRegistry, probes: Probes) -> Iterator[None]:
    """Serve the metrics at /metrics and each probe at its own path, within the block.

    Raises OSError where the port cannot be had.
    """
    family, *_, place = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    handler = type("Handler", (Handler,), {"registry": registry, "probes": probes})
    server_class = type("Server", (_Server,), {"address_family": family})
    server = server_class(place[:2], handler)
    threading.Thread(target=server.serve_forever, name="http server", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
