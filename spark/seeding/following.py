"""Waits until a running loader follows everything that the facts need."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from common import logged_tables
from common.connections import Connection
from common.errors import AuditIncomplete
from common.settings import Settings
from warehouse import loader_progress

from waltally.facts import Fact

_POLL_SECONDS = 0.2
_NOTIFY_SECONDS = 10.0


def wait_until_followed(
    target: Connection,
    source: Connection | None,
    settings: Settings,
    facts: Sequence[Fact],
    notify: Callable[[str], None],
) -> None:
    """Return when the log holds every needed column from some position on, or will do so.

    A running loader sees within seconds that `loader setup` has registered more. Where nobody
    follows the slot, the next session begins with it, at a position before any later snapshot; only
    a `source` can tell that.
    Raises AuditIncomplete after `settings.timeout` seconds.
    """
    begun = time.monotonic()
    notified = 0.0
    while missing := [
        table
        for table, at in logged_tables.held_since(target, settings, facts).items()
        if at is None
    ]:
        if source is not None and not loader_progress.is_followed(source, settings.slot):
            return
        now = time.monotonic()
        names = ", ".join(missing)
        who = (
            loader_progress.follower(source, settings.slot)
            if source is not None
            else "is it running?"
        )
        if now - begun > settings.timeout:
            raise AuditIncomplete(
                f"after {settings.timeout:.0f} s the log does not hold {names} yet; {who}",
                "see with `loader status` what the loader waits for, then run the"
                f" {settings.work} again; a larger --timeout waits longer",
            )
        if now - notified > _NOTIFY_SECONDS:
            notified = now
            notify(f"waiting until the loader follows {names}; {who}")
        time.sleep(_POLL_SECONDS)
