"""Applies the dbt models in this process, after each staged batch."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import closing

from psycopg2 import extensions

from loader.build.models import Models
from loader.build.planned_models import PlannedModels
from loader.capture.events import BuildBroke, Building, Built, Committed, Event, Notify, ignore
from loader.staging import watermarks
from waltally import libpq, login, lsn
from waltally.database import connect
from waltally.errors import LoaderError, unexpected
from waltally.settings import Settings
from waltally.tables import quoted

log = logging.getLogger("loader")

THREAD = "dbt"
_RETRY_SECONDS = 5.0
_SWITCH_SECONDS = 0.0005


def export_target(settings: Settings) -> None:
    """Export the target and the settings to this process's environment, where dbt reads them.

    The profile names the database by libpq's PG* variables. Other users cannot see a password
    there. Raises LoginRefused, CannotConnect, SettingError.
    """
    with closing(connect(settings.target, "target")) as connection:
        os.environ.update(libpq.environment(connection, login.pinned(settings.target)))
    # dbt reads the server's text as UTF-8; the user's own environment may ask for another.
    os.environ["PGCLIENTENCODING"] = "UTF8"
    os.environ["LOADER_SLOT"] = settings.slot
    os.environ["LOADER_SCHEMA"] = settings.schema


def apply_all(
    connection: extensions.connection, settings: Settings, models: PlannedModels
) -> dict[str, float]:
    """Run the models until they hold what was staged at the start, slice by slice.

    Rejected changes are logged once.
    Return, by model, the age in seconds of the newest change that became visible.
    Raises BuildFailed, LoaderError.
    """
    first = after = watermarks.read_watermarks(connection, settings.schema, settings.slot)
    is_behind = True
    while is_behind:
        before = after
        models.apply(before.staging)
        after = watermarks.read_watermarks(connection, settings.schema, settings.slot)
        is_behind = after.is_behind(before)
    for model, rejected in after.rejections(first).items():
        log.warning(
            "%s could not count some changes, the newest at %s\n"
            "Try: select * from %s.rejected_changes order by commit_lsn desc; "
            "-- and `loader setup --check` where a table is the cause",
            model,
            lsn.show(rejected),
            quoted(model.rpartition(".")[0]),
        )
    return watermarks.freshness(connection, settings.schema, settings.slot, first, after)


def apply_once(settings: Settings, notify: Notify = ignore) -> None:
    """Run the models in this thread until they hold what is staged.

    Raises BuildFailed, LoginRefused, CannotConnect.
    """
    notify(Building())
    started = time.monotonic()
    export_target(settings)
    with (
        closing(connect(settings.target, "target")) as connection,
        closing(PlannedModels(Models())) as models,
    ):
        freshness = apply_all(connection, settings, models)
    notify(Built(time.monotonic() - started, freshness))


class Builder:
    """A thread that applies the models whenever something new was staged.

    Each model is one transaction, so a failed build changes nothing and is tried again, while the
    loader goes on staging. Where dbt cannot be imported, the loader ends.
    """

    def __init__(
        self,
        settings: Settings,
        stop: threading.Event,
        notify: Notify = ignore,
        interval: float = 0.0,
    ) -> None:
        """`stop` ends the loader; it is set where no build can succeed, and `close` says why.

        A build begins `interval` seconds after the one before it at the earliest.
        """
        self._interval = interval
        self._settings = settings
        self._models: PlannedModels | None = None
        self._connection: extensions.connection | None = None
        self._stop_loader = stop
        self._failure: LoaderError | None = None
        self._notify = notify
        self._staged = 0
        self._built = -1
        self._stop = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)

    def start(self) -> None:
        """Begin to watch for staged changes."""
        # dbt computes for long. A thread that moves rows waits this long for the interpreter each
        # time it comes back from the network; the default is 5 ms.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def notice(self, event: Event) -> None:
        """Take an event of the run: a batch that is staged has to be built.

        The position would not do: a build writes WAL, which moves an idle position, and that would
        start another build.
        """
        if isinstance(event, Committed) and event.changes:
            self._staged += 1
            self._wake.set()

    def close(self) -> None:
        """Apply what is still staged, then end; a failure is logged and left to the next run.

        Raises BuildFailed where no build can succeed.
        """
        self._stop = True
        self._wake.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if self._staged != self._built:
            self._try("what is staged waits for the next build")
        self._disconnect()

    def _run(self) -> None:
        # Loading dbt takes seconds, and is part of the first build.
        self._notify(Building())
        try:
            self._models = PlannedModels(Models())
        except LoaderError as error:
            self._failure = error
            self._stop_loader.set()
            return
        while not self._stop:
            staged = self._staged
            if staged == self._built:
                self._wake.wait()
                self._wake.clear()
                continue
            began = time.monotonic()
            if self._try(f"trying again in {_RETRY_SECONDS:g} s"):
                self._built = staged
                self._pause(began + self._interval)
            else:
                self._pause(time.monotonic() + _RETRY_SECONDS)

    def _pause(self, end: float) -> None:
        """Wait until then; new batches do not cut the wait short, a stop does."""
        while not self._stop and (left := end - time.monotonic()) > 0:
            self._wake.wait(left)
            self._wake.clear()

    def _try(self, outlook: str) -> bool:
        """Build once and return whether that succeeded; a failure is logged with the outlook."""
        try:
            self._apply()
        except Exception as failure:
            # Any exception: staging must go on, or the slot would hold WAL because of a model.
            self._disconnect()
            error = failure if isinstance(failure, LoaderError) else _unforeseen(failure)
            # The remedy comes last: what followed it would be pasted with its SQL.
            log.error("%s; %s%s", error, outlook, f"\nTry: {error.remedy}" if error.remedy else "")
            self._notify(BuildBroke(error))
            return False
        return True

    def _apply(self) -> None:
        assert self._models is not None
        self._notify(Building())
        started = time.monotonic()
        if self._connection is None:
            # Here and not at the start, because the loader waits for a target that is down.
            export_target(self._settings)
            self._connection = connect(self._settings.target, "target")
        freshness = apply_all(self._connection, self._settings, self._models)
        seconds = time.monotonic() - started
        log.debug("built in %.3f s", seconds)
        self._notify(Built(seconds, freshness))

    def _disconnect(self) -> None:
        if self._models is not None:
            self._models.close()
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _unforeseen(error: Exception) -> LoaderError:
    log.debug("the build broke", exc_info=error)
    return unexpected(error)
