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

from loader import libpq, watermarks
from loader.database import connect
from loader.errors import BuildFailed, LoaderError
from loader.events import BuildBroke, Built, Notify, ignore
from loader.settings import Settings

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

log = logging.getLogger("loader")

_SELECT = ("--select", "config.materialized:incremental", "config.materialized:kept_table")
_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")
_RETRY_SECONDS = 5.0
_SWITCH_SECONDS = 0.0005
_SLICE = ("--vars", "slice_changes: 1000000")
"""A backlog is applied in builds of so many changes, each in a transaction of its own."""


def export_target(settings: Settings) -> None:
    """Put the target and the settings into this process's environment, where dbt reads them.

    The profile names the database by libpq's PG* variables; a password stays out of sight of
    other users there. Raises LoginRefused, CannotConnect, SettingError.
    """
    with closing(connect(settings.target, "target")) as connection:
        os.environ.update(libpq.environment(connection, settings.target))
    os.environ["LOADER_SLOT"] = settings.slot
    os.environ["LOADER_SCHEMA"] = settings.schema
    os.environ["LOADER_TABLES"] = ",".join(table.quoted for table in settings.tables)


class Models:
    """The project's incremental models. Importing dbt takes seconds, so it waits until here."""

    def __init__(self) -> None:
        self._manifest: Manifest | None = None

    def apply(self) -> None:
        """Run the models once, for a slice of what is staged. Raises BuildFailed."""
        from dbt.cli.main import dbtRunner

        if self._manifest is None:
            parsed = dbtRunner().invoke(["parse", *_SLICE, *_QUIET])
            self._refuse(parsed.success, str(parsed.exception))
            self._manifest = cast("Manifest", parsed.result)
            self._nodes = copy.deepcopy(self._manifest.nodes)
        # A run leaves its compiled code in the nodes, and takes an ephemeral model that has some
        # for one that was already inlined.
        self._manifest.nodes = copy.deepcopy(self._nodes)
        outcome = dbtRunner(manifest=self._manifest).invoke(["run", *_SELECT, *_SLICE, *_QUIET])
        said = str(outcome.exception or "")
        for result in getattr(outcome.result, "results", ()):
            if result.status not in ("success", "skipped"):
                said += f"{result.node.name}: {result.message}; "
        self._refuse(outcome.success, said)

    def _refuse(self, success: bool, said: str) -> None:
        if not success:
            raise BuildFailed(
                f"dbt could not apply the models: {' '.join(said.split())}",
                "`dbt build` in the repository's root shows it whole",
            )


def apply_all(settings: Settings, models: Models) -> dict[str, float]:
    """Run the models until they hold what was staged at the start, slice by slice.

    Return, by model, the age in seconds of the newest change that became visible.
    Raises BuildFailed and what connecting to the target may raise.
    """
    with closing(connect(settings.target, "target")) as connection:
        first = after = watermarks.read(connection, settings.schema, settings.slot)
        is_behind = True
        while is_behind:
            before = after
            models.apply()
            after = watermarks.read(connection, settings.schema, settings.slot)
            is_behind = after.is_behind(before)
        return watermarks.freshness(connection, settings.schema, settings.slot, first, after)


class Builder:
    """A thread that applies the models whenever something new was staged.

    A failed build changes nothing, as each model is one transaction, so it is tried again; the
    loader meanwhile goes on staging.
    """

    def __init__(
        self, settings: Settings, batches: Callable[[], int], notify: Notify = ignore
    ) -> None:
        """`batches` returns how many batches of changes this process has staged.

        Not the position: a build is WAL too, which moves an idle position, which would build.
        """
        self._settings = settings
        self._models: Models | None = None
        self._batches = batches
        self._notify = notify
        self._built = -1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dbt", daemon=True)

    def start(self) -> None:
        """Begin to watch for staged changes."""
        # dbt computes for long. Whenever a thread that moves rows comes back from the network it
        # would wait this long for the interpreter, 5 ms if nothing is said.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def close(self) -> None:
        """Apply what is still staged, then end; a failure is logged and left to the next run."""
        self._stop.set()
        self._thread.join()
        if self._batches() != self._built:
            try:
                self._apply()
            except LoaderError as error:
                log.error("%s; what is staged waits for the next build", error.sentence)
                self._notify(BuildBroke(error))

    def _apply(self) -> None:
        started = time.monotonic()
        if self._models is None:
            # Here and not at the start: the loader waits for a target that is down.
            export_target(self._settings)
            self._models = Models()
        freshness = apply_all(self._settings, self._models)
        seconds = time.monotonic() - started
        log.debug("built in %.2f s", seconds)
        self._notify(Built(seconds, freshness))

    def _run(self) -> None:
        while not self._stop.is_set():
            batches = self._batches()
            if batches == self._built:
                self._stop.wait(0.02)
                continue
            try:
                self._apply()
                self._built = batches
            except LoaderError as error:
                log.error("%s; trying again in %g s", error.sentence, _RETRY_SECONDS)
                self._notify(BuildBroke(error))
                self._stop.wait(_RETRY_SECONDS)
