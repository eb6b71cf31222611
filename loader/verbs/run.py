"""`loader run`: follow the slot, and apply the models too if asked."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from loader.monitoring import text_lines
from waltally.errors import LoaderError, SettingError
from waltally.limits import limits
from waltally.options import with_settings
from waltally.settings import Settings
from waltally.tables import parse_names

log = logging.getLogger("loader")

BUILD_SHARE = 0.2
"""The share of a core that applying may take, where nobody says another."""

if TYPE_CHECKING:
    from loader.capture.events import Event, Notify


@with_settings()
def run_command(
    settings: Settings,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at what is committed now, with exit code 0.")
    ] = False,
    with_build: Annotated[
        bool,
        typer.Option("--build", help="Have the database apply each batch to the models."),
    ] = False,
    build_share: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            envvar="LOADER_BUILD_SHARE",
            min=0.01,
            max=1,
            help="The share of a core that applying may take while it keeps up; 1: no pauses.",
        ),
    ] = BUILD_SHARE,
    columns: Annotated[
        str,
        typer.Option(
            metavar="COLUMN,...",
            envvar="LOADER_COLUMNS",
            show_default="all",
            help="Keep only these columns, keys, and what the models need; the rest is not stored.",
        ),
    ] = "",
    with_seeds: Annotated[
        bool, typer.Option("--seed", help="Start the seeds that models wait for, one at a time.")
    ] = False,
    seed_command: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            envvar="LOADER_SEED_COMMAND",
            show_default="spark-submit spark/seed.py",
            help="What starts a seed, with --model NAME after it: a cluster's own submit.",
        ),
    ] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each build too.")] = False,
    metrics_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            envvar="LOADER_METRICS_PORT",
            min=0,
            max=65535,
            help="Serve Prometheus metrics, /healthz and /readyz on this port; 0: none. "
            "Not with --once.",
        ),
    ] = 0,
    metrics_address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            envvar="LOADER_METRICS_ADDRESS",
            help="The address to serve metrics on.",
        ),
    ] = "127.0.0.1",
) -> None:
    """Follow the slot into the change log until stopped by SIGTERM or Ctrl-C.

    Example: loader run --build
    """
    from loader.applying import seeder

    log_to_stderr(verbose)
    if with_seeds and once:
        raise SettingError("--once ends, and --seed waits for models", "leave one of them out")
    follow_slot(
        replace(settings, columns=parse_names(columns, "LOADER_COLUMNS", "--columns")),
        once,
        build_share if with_build else None,
        seeder.seed_command(seed_command) if with_seeds else None,
        (metrics_address, metrics_port) if metrics_port and not once else None,
    )


def follow_slot(
    settings: Settings,
    once: bool = False,
    build_share: float | None = None,
    seed_command: list[str] | None = None,
    metrics_at: tuple[str, int] | None = None,
) -> None:
    """Follow the slot until a signal stops it, or with `once` up to what is committed now.

    `build_share`: the share of a core that applying may take; None: nothing is applied.
    `seed_command` starts the seeds that models wait for; None: nothing does. `metrics_at` is
    the address and the port to serve metrics on. Main thread only. Raises LoaderError.
    """
    from loader.applying import applier, seeder
    from loader.capture.events import Failed, RunState
    from loader.capture.follow import follow
    from loader.monitoring.progress import Progress

    run_state = RunState()
    progress = Progress(run_state)
    observers: list[Notify] = [progress]

    def notify(event: Event) -> None:
        for observer in observers:
            observer(event)

    with ExitStack() as opened:
        stop = opened.enter_context(stop_event(signal.SIGTERM, signal.SIGINT))
        threads = [SIGNAL_THREAD, *(applier.THREADS if build_share else ())]
        threads += [seeder.THREAD] if seed_command else []
        if metrics_at:
            # Only here: a loader without metrics starts faster without the client's modules.
            from loader.monitoring import metrics

            serving = metrics.served(settings, run_state, stop, threads, *metrics_at)
            observers.append(opened.enter_context(serving))
        opened.enter_context(progress)
        if seed_command:
            opened.enter_context(seeder.Seeder(settings, seed_command))
        if build_share and not once:
            background = applier.Applier(settings, run_state, notify, build_share)
            observers.append(background.notice)
            background.start()
            opened.callback(background.close)
            # Also where following failed: from here on these threads may end.
            opened.callback(stop.set)
        try:
            follow(settings, stop, run_state, once, notify)
            if build_share and once:
                log.info("applying what is staged")
                applier.apply_once(settings, notify)
        except LoaderError as error:
            notify(Failed(error, retried=False))
            raise


def log_to_stderr(verbose: bool = False) -> None:
    """Have what happens logged to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(text_lines.LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("loader")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False


SIGNAL_THREAD = "stop signals"


@contextmanager
def stop_event(*numbers: signal.Signals) -> Iterator[threading.Event]:
    """Yield an event that is set once the process gets one of the signals. Main thread only.

    A handler must not set it: it runs in the main thread, perhaps in the middle of `Event.wait`,
    which holds the lock that `Event.set` waits for, and the process would never stop. So the
    interpreter writes each signal's number into a socket, and a thread sets the event.

    A server that does not answer holds up every thread that asks it. So the process ends where the
    block does not end in time: for the servers that is a kill, after which nothing is lost.
    """
    stop = threading.Event()
    overdue = threading.Timer(limits.stop_seconds, _end)
    overdue.daemon = True
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def wait() -> None:
        while received := reader.recv(1):
            if received[0] in numbers:
                stop.set()
                log.info("stopping")
                if overdue.ident is None:
                    overdue.start()

    thread = threading.Thread(target=wait, name=SIGNAL_THREAD, daemon=True)
    with reader, writer:
        thread.start()
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
        try:
            yield stop
        finally:
            overdue.cancel()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)
            writer.close()
            thread.join()


def _end() -> None:
    """End the process without waiting for anything."""
    log.warning(
        "not stopped after %g s, because a server does not answer: the loader ends now; "
        "what it has not stored comes again",
        limits.stop_seconds,
    )
    os._exit(0)
