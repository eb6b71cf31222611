"""Writes down from which position on the log holds which tables and columns."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Event

from loader.capture.batch import Batch
from loader.capture.catalogs import Catalog, are_as_read
from loader.capture.stages.partitions import Partitions
from loader.source.fingerprint import FingerprintCatalog
from loader.staging.change_log import ChangeLog
from loader.staging.logged_tables import Followed, Gap, Held, Kept, after_gap, fingerprint_gap
from loader.staging.records import Registration
from loader.staging.registration import write_followed
from waltally.errors import LoaderError, TableReplaced
from waltally.tables import Table

log = logging.getLogger("loader")


class FollowedTables:
    """The tables of one session, and the gaps that its batches show."""

    def __init__(
        self,
        change_log: ChangeLog,
        registration: Registration,
        partitions: Partitions,
        fingerprints: FingerprintCatalog,
        catalogs: Iterable[Catalog],
    ) -> None:
        """`catalogs` are those that have to stay as they were read."""
        self._log = change_log
        self._registration = registration
        self._partitions = partitions
        self._catalog = fingerprints
        self._catalogs = tuple(catalogs)
        self._followed: Followed = registration.followed
        self._gaps: dict[Table, Gap] = {}
        self._written: Held | None = None
        self.has_refused = False
        """Whether a batch must not be stored; the session then stores nothing more."""

    def begin(self, kept: Kept, position: int) -> None:
        """Note that the log goes on from the position with these tables and columns.

        In a transaction that the caller ends.
        """
        self._followed = self._partitions.followed(kept, position)
        self._note(self._partitions.changed())
        catalog, before = self._catalog, self._registration.fingerprints
        for table, now in catalog.fingerprints.items():
            gap = fingerprint_gap(before.get(table, {}), now, catalog.read_lsn)
            if gap is not None:
                self._note([(table, gap)])
        self._write()

    def note(self, batch: Batch, stop: Event) -> bool:
        """Note, in the batch's transaction, what it lacks of a table.

        False where the log would lack a partition that is not followed, or have a label under
        two names, or where the loader has to stop before that is known: the batch must not be
        stored then. Raises LoaderError.
        """
        if not are_as_read(self._catalogs, batch.xids, stop):
            self.has_refused = True
            return False
        self._note(self._partitions.noted())
        self._write()
        return True

    def _note(self, gaps: Iterable[tuple[Table, Gap]]) -> None:
        for table, gap in gaps:
            log.warning(not_in_log(table, gap.event).sentence)
            if table in self._followed:
                self._followed = after_gap(self._followed, table, gap)
                self._gaps[table] = gap

    def _write(self) -> None:
        held = Held(
            self._followed,
            dict(self._partitions.roots),
            self._catalog.fingerprints,
            dict(self._gaps),
        )
        if held != self._written:
            self._log.begin()
            write_followed(self._log.connection, self._registration, held)
            self._written = held


def not_in_log(table: Table, event: str) -> LoaderError:
    """Return the finding that rows came, went or changed without changes."""
    return TableReplaced(
        f"{table} {event}; the log has no change for these rows, so its models wait",
        "`spark-submit spark/seed.py`, then `dbt build`",
    )
