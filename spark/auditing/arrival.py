"""Waiting for the loader: whoever runs it, the changes before a position must be in the log."""

from __future__ import annotations

import time
from collections.abc import Callable

from history.connections import Connection
from history.errors import AuditIncomplete

from auditing import fact
from auditing.settings import AuditSettings
from loader import lsn

_POLL_SECONDS = 0.2
_TELL_SECONDS = 10.0
_MARK_BYTES = 2048


def mark(source: Connection) -> None:
    """Write a logical message into the source's WAL, so that a loader has something to pass.

    An idle loader does not move for less than 1 KiB of WAL, and what was committed
    asynchronously is flushed with the message. No row is written.
    """
    with source.transaction():
        # A standby that is away must not keep us.
        source.execute("set local synchronous_commit to 'local'")
        source.execute(
            "select pg_logical_emit_message(true, 'waltally', repeat(' ', %s))", (_MARK_BYTES,)
        )


def wait(
    target: Connection,
    source: Connection,
    settings: AuditSettings,
    position: int,
    tell: Callable[[str], None],
) -> None:
    """Return once the change log holds every change below the position.

    Raises AuditIncomplete after `settings.reading.timeout` seconds.
    """
    slot, timeout = settings.reading.slot, settings.reading.timeout
    begun = time.monotonic()
    told = 0.0
    while (reached := fact.position_lsn(target, settings)) < position:
        now = time.monotonic()
        behind = (
            f"the loader is at {lsn.show(reached)}, {position - reached:,} bytes of WAL before"
            f" {lsn.show(position)}"
        )
        if now - begun > timeout:
            raise AuditIncomplete(
                f"after {timeout:.0f} s {behind}, and {follower(source, slot)}",
                "see that `loader run` runs, or run `loader run --once` while the audit waits;"
                " a larger --timeout waits longer",
            )
        if now - told > _TELL_SECONDS:
            told = now
            tell(f"waiting: {behind}; {follower(source, slot)}")
        time.sleep(_POLL_SECONDS)


def follower(source: Connection, slot: str) -> str:
    """Say who follows the slot, as the end of a sentence."""
    row = source.execute(
        "select active_pid from pg_replication_slots where slot_name = %s", (slot,)
    ).fetchone()
    if row is None:
        return f"the slot {slot} does not exist"
    return f"pid {row[0]} follows the slot" if row[0] else f"nobody follows the slot {slot}"
