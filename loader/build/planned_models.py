"""The dbt models, applied by dbt until its statements are known and then by these statements."""

from __future__ import annotations

import logging
import time

from psycopg2 import extensions

from loader.build import execution, project_files
from loader.build.models import Models
from loader.build.plan import Plans, Statements

log = logging.getLogger("loader")

_CONNECTION_SECONDS = 600.0
"""Temporary tables live as long as their session, and vacuum cannot freeze those of others: an old
one would hold back the age of the database."""


class PlannedModels:
    """Applies each model by its plan where there is one, and the others by dbt."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._staging: object = None
        self._plans = Plans()
        self._all: set[str] | None = None
        """The models of the project; None where dbt has not run them all yet."""
        self._profile: project_files.Stamps = {}
        self._connection: extensions.connection | None = None
        self._opened_at = 0.0

    def apply(self, staging: object = None) -> None:
        """Apply all models once, for a slice of what is staged. Raises BuildFailed.

        The project is parsed anew where one of its files has changed, or `staging`: what is
        registered, and the version of the staging schema.
        """
        if self._is_outdated(staging):
            self._models.forget()
            self._plans = Plans()
            self._all = None
            self._profile = {}
            self.close()
        self._staging = staging
        plans = self._plans.confirmed
        done = {model for model, plan in plans.items() if self._execute(model, plan)}
        if self._all is not None and done == self._all:
            return
        run = self._models.run(sorted(self._all - done) if self._all is not None else ())
        self._plans.learn(run.statements)
        self._profile = project_files.stamp([self._models.profile])
        if run.failure is not None:
            raise run.failure
        self._all = (self._all or set()) | set(run.statements)

    def close(self) -> None:
        """Close the connection that the plans are executed on."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _is_outdated(self, staging: object) -> bool:
        return (
            self._staging not in (None, staging)
            or self._models.is_outdated()
            or project_files.differ(self._profile)
        )

    def _execute(self, model: str, plan: Statements) -> bool:
        """Execute a model's plan and return whether that succeeded; else dbt has to run it."""
        try:
            execution.execute(self._connected(), plan)
        except Exception as error:
            # Whatever it is: dbt runs the model now, and its error is the one to be read.
            log.debug("dbt runs %s: %s", model, error)
            self._plans.forget(model)
            self.close()
            return False
        return True

    def _connected(self) -> extensions.connection:
        if time.monotonic() - self._opened_at > _CONNECTION_SECONDS:
            self.close()
        if self._connection is None:
            self._connection = self._models.connect()
            self._opened_at = time.monotonic()
        return self._connection
