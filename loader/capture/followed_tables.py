"""Writes down from which position on the log holds which tables and columns."""

from __future__ import annotations

import logging
from threading import Event

from loader.capture.altered_tables import altered_tables
from loader.capture.batch import Batch
from loader.capture.stages.partitions import Partitions
from loader.staging.change_log import ChangeLog
from loader.staging.logged_tables import Followed, Kept, after_gap
from loader.staging.records import Registration

log = logging.getLogger("loader")


class FollowedTables:
    """The tables of one session, and the gaps that its batches show."""

    def __init__(
        self, change_log: ChangeLog, registration: Registration, partitions: Partitions
    ) -> None:
        self._log = change_log
        self._registration = registration
        self._partitions = partitions
        self._followed: Followed = registration.followed
        self._written = (registration.followed, dict(registration.leaves))
        self.has_refused = False
        """Whether a batch must not be stored; the session then stores nothing more."""

    def begin(self, kept: Kept, position: int) -> None:
        """Note that the log goes on from the position with these tables and columns.

        In a transaction that the caller ends.
        """
        self._partitions.report()
        self._followed = self._partitions.followed(kept, position)
        self._write()

    def note(self, batch: Batch, stop: Event) -> bool:
        """Note, in the batch's transaction, what it lacks of a table.

        False where the log would lack a partition that is not followed, or where the loader has to
        stop before that is known: the batch must not be stored then. Raises LoaderError.
        """
        if not self._partitions.are_as_read(batch.xids, stop):
            self.has_refused = True
            return False
        altered = altered_tables(batch.altered, self._registration, self._partitions.roots)
        for table, start, finding in (*self._partitions.noted(), *altered):
            if table in self._followed:
                log.warning(finding.sentence)
                self._followed = after_gap(self._followed, table, start)
        self._write()
        return True

    def _write(self) -> None:
        state = self._followed, dict(self._partitions.roots)
        if state != self._written:
            self._log.write_followed(self._registration, *state)
            self._written = state
