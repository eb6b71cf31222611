"""The HTTP server of `loader run --metrics-port`: metrics and what probes ask, on one port."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from loader.monitoring.health import Answer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# Each answer gets a list of its own, because the server adds the length to it.
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"))


class _Server(ThreadingMixIn, WSGIServer):
    """A thread per request; they end with the process."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that went away: a load balancer's check may end by a reset."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = 30.0
    """Seconds without a byte. Each client that vanished would hold its thread for ever."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the log is the loader's."""


@contextmanager
def served(
    address: str,
    port: int,
    metrics: WSGIApplication,
    probes: Mapping[str, Callable[[], Answer]],
) -> Iterator[None]:
    """Serve `metrics` at /metrics and each probe at its own path, within the block.

    A probe answers 200 or 503 and one line. Raises OSError where the port cannot be had.
    """
    paths = ", ".join(["/metrics", *probes])

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start)
        if path not in probes:
            # Not the metrics: a probe of a misspelt path would always succeed.
            start("404 Not Found", list(_TEXT))
            return [f"there is {paths}\n".encode()]
        found = probes[path]()
        start("200 OK" if found.is_good else "503 Service Unavailable", list(_TEXT))
        return [f"{found.line}\n".encode()]

    family, *_, place = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    server_class = _ServerOfIPv6 if family == socket.AF_INET6 else _Server
    server = make_server(str(place[0]), port, answer, server_class, _Handler)
    thread = threading.Thread(target=server.serve_forever, name="http server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
