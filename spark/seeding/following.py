"""Waits until a running loader follows everything that the facts need."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from common import slot_position
from common.connections import Connection
from common.errors import AuditIncomplete
from common.settings import Settings
from warehouse import loader_progress

from waltally.facts import Fact, source_tables
from waltally.tables import Table

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
    while missing := _missing(target, settings, facts):
        if source is not None and not loader_progress.is_followed(source, settings.slot):
            return
        now = time.monotonic()
        names = ", ".join(map(str, missing))
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


def _missing(target: Connection, settings: Settings, facts: Sequence[Fact]) -> list[Table]:
    held = slot_position.read(target, settings.schema, settings.slot).held_since
    return [
        table
        for table in source_tables(facts)
        if any((each.name, str(table)) not in held for each in facts if str(table) in each.needed)
    ]
