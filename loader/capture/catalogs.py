"""Looks again at what a session has read of the source's catalog, before it stores a position."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Event
from typing import Protocol

from loader.staging.logged_tables import unfinished
from waltally.errors import Interrupted

_PATIENCE = 60.0
_POLL_SECONDS = 0.01


class Catalog(Protocol):
    """What a session has read."""

    def look_again(self) -> tuple[bool, str]:
        """Return whether nothing has changed since, and the snapshot that shows it."""


def are_as_read(catalogs: Iterable[Catalog], xids: set[int], stop: Event) -> bool:
    """Return whether the catalogs are still the same after these transactions.

    Waits until all of them are visible, and returns False where the loader has to stop before.
    Raises Interrupted where a commit takes too long, and other LoaderErrors.
    """
    deadline = time.monotonic() + _PATIENCE
    return all(_is_as_read(catalog, xids, stop, deadline) for catalog in catalogs)


def _is_as_read(catalog: Catalog, xids: set[int], stop: Event, deadline: float) -> bool:
    while True:
        is_same, snapshot = catalog.look_again()
        if not is_same or not unfinished(snapshot, xids):
            return is_same
        if stop.wait(_POLL_SECONDS):
            return False
        if time.monotonic() > deadline:
            raise Interrupted(
                f"A transaction has not finished its commit within {_PATIENCE:.0f} s, so its "
                "changes to partitions and labels cannot be seen yet",
                "see what its commit waits for",
            )
