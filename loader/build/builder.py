"""Applies the dbt models in this process: parsed once, then run after each staged batch."""

from __future__ import annotations

import copy
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, cast

from loader.capture.events import BuildBroke, Built, Notify, ignore
from loader.staging import watermarks
from waltally import libpq, login, lsn
from waltally.database import connect
from waltally.errors import BuildFailed, LoaderError, unexpected
from waltally.settings import Settings
from waltally.tables import quoted

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

log = logging.getLogger("loader")

_SELECT = ("--select", "config.materialized:waltally_fact", "config.materialized:kept_table")
"""The materializations of this package: a host project's other models are left alone."""
_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")
_RETRY_SECONDS = 5.0
_SWITCH_SECONDS = 0.0005
_SLICE = ("--vars", "slice_changes: 1000000")
"""A backlog is applied in builds of this many changes, each in its own transaction."""


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


class Models:
    """The project's facts, as dbt builds them. Importing dbt takes seconds, so only here."""

    def __init__(self) -> None:
        """Import dbt. Raises BuildFailed where that fails; another try would fail too."""
        try:
            import dbt.adapters.postgres
            import dbt.cli.main  # noqa: F401
        except Exception as error:
            log.debug("dbt cannot be imported", exc_info=error)
            raise BuildFailed(
                f"dbt cannot be imported: {type(error).__name__} ({error})",
                f"in the repository's root: {sys.executable} -m pip install -r requirements.lock",
            ) from error
        self._manifest: Manifest | None = None
        self._registration: int | None = None

    def apply(self, registration: int | None = None) -> None:
        """Run the models once, for a slice of what is staged. Raises BuildFailed.

        The project is parsed anew where `registration` is another number than the last time: then
        `loader setup` has registered other declarations.
        """
        from dbt.cli.main import dbtRunner

        if registration is not None:
            if self._registration not in (None, registration):
                self._manifest = None
            self._registration = registration
        if self._manifest is None:
            parsed = dbtRunner().invoke(["parse", *_SLICE, *_QUIET])
            self._check(parsed.success, str(parsed.exception))
            self._manifest = cast("Manifest", parsed.result)
            self._nodes = copy.deepcopy(self._manifest.nodes)
        # A run leaves compiled code in the nodes. The next run would take an ephemeral model with
        # such code for one that is already inlined.
        self._manifest.nodes = copy.deepcopy(self._nodes)
        outcome = dbtRunner(manifest=self._manifest).invoke(["run", *_SELECT, *_SLICE, *_QUIET])
        said = str(outcome.exception or "")
        for result in getattr(outcome.result, "results", ()):
            if result.status not in ("success", "skipped"):
                said += f"{result.node.name}: {result.message}; "
        self._check(outcome.success, said)

    def _check(self, success: bool, said: str) -> None:
        if not success:
            raise BuildFailed(
                f"dbt could not apply the models: {' '.join(said.split())}",
                "`dbt build` in the repository's root shows the whole error",
            )


def apply_all(settings: Settings, models: Models) -> dict[str, float]:
    """Run the models until they hold what was staged at the start, slice by slice.

    Rejected changes are logged once.
    Return, by model, the age in seconds of the newest change that became visible.
    Raises BuildFailed, LoginRefused, CannotConnect.
    """
    with closing(connect(settings.target, "target")) as connection:
        first = after = watermarks.read_watermarks(connection, settings.schema, settings.slot)
        is_behind = True
        while is_behind:
            before = after
            models.apply(before.registration)
            after = watermarks.read_watermarks(connection, settings.schema, settings.slot)
            is_behind = after.is_behind(before)
        for model, rejected in after.rejections(first).items():
            log.warning(
                "%s could not count some changes, the newest at %s\n"
                "Try: select * from %s.rejected_changes order by commit_lsn desc; "
                "and `loader setup --check` where a table is the cause",
                model,
                lsn.show(rejected),
                quoted(model.rpartition(".")[0]),
            )
        return watermarks.freshness(connection, settings.schema, settings.slot, first, after)


class Builder:
    """A thread that applies the models whenever something new was staged.

    Each model is one transaction, so a failed build changes nothing and is tried again, while the
    loader goes on staging. Where dbt cannot be imported, the loader ends.
    """

    def __init__(
        self,
        settings: Settings,
        batches: Callable[[], int],
        stop: threading.Event,
        notify: Notify = ignore,
    ) -> None:
        """`batches` returns how many batches of changes this process has staged.

        `stop` ends the loader; it is set where no build can succeed, and `close` says why.
        The position would not do: a build writes WAL, which moves an idle position, and that would
        start another build.
        """
        self._settings = settings
        self._models: Models | None = None
        self._stop_loader = stop
        self._failure: LoaderError | None = None
        self._is_exported = False
        self._batches = batches
        self._notify = notify
        self._built = -1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dbt", daemon=True)

    def start(self) -> None:
        """Begin to watch for staged changes."""
        # dbt computes for long. A thread that moves rows waits this long for the interpreter each
        # time it comes back from the network; the default is 5 ms.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def close(self) -> None:
        """Apply what is still staged, then end; a failure is logged and left to the next run.

        Raises BuildFailed where no build can succeed.
        """
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if self._batches() != self._built:
            self._try("what is staged waits for the next build")

    def _run(self) -> None:
        try:
            self._models = Models()
        except LoaderError as error:
            self._failure = error
            self._stop_loader.set()
            return
        while not self._stop.is_set():
            batches = self._batches()
            if batches == self._built:
                self._stop.wait(0.02)
            elif self._try(f"trying again in {_RETRY_SECONDS:g} s"):
                self._built = batches
            else:
                self._stop.wait(_RETRY_SECONDS)

    def _try(self, outlook: str) -> bool:
        """Build once and return whether that succeeded; a failure is logged with the outlook."""
        try:
            self._apply()
        except Exception as failure:
            # Any exception: staging must go on, or the slot would hold WAL because of a model.
            error = failure if isinstance(failure, LoaderError) else _unforeseen(failure)
            log.error("%s; %s", error.sentence, outlook)
            self._notify(BuildBroke(error))
            return False
        return True

    def _apply(self) -> None:
        assert self._models is not None
        started = time.monotonic()
        if not self._is_exported:
            # Here and not at the start, because the loader waits for a target that is down.
            export_target(self._settings)
            self._is_exported = True
        freshness = apply_all(self._settings, self._models)
        seconds = time.monotonic() - started
        log.debug("built in %.2f s", seconds)
        self._notify(Built(seconds, freshness))


def _unforeseen(error: Exception) -> LoaderError:
    log.debug("the build broke", exc_info=error)
    return unexpected(error)
