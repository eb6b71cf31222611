"""Waits until the loader has staged every change before a position."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from common import slot_position
from common.connections import Connection
from common.errors import AuditIncomplete
from common.settings import Settings

from waltally import lsn

_POLL_SECONDS = 0.2
_NOTIFY_SECONDS = 10.0
_FOLLOWER_SECONDS = 6.0
"""Longer than a loader needs to follow again after it has lost its connection: 5 s."""
_MESSAGE_BYTES = 2048


_IS_LOCKED = """
select exists (
    select from pg_locks
    where
        locktype = 'advisory'
        and classid = hashtext('waltally loader')::oid
        and objid = hashtext(%s)::oid
        and database = (select oid from pg_database where datname = current_database())
        and granted
)
"""


@dataclass(frozen=True)
class LoaderLock:
    """The lock that a loader holds at the target while it follows a slot.

    A slot on a standby shows on no other server, so this tells whether somebody follows it.
    """

    target: Connection
    schema: str

    def is_held(self, slot: str) -> bool:
        """Return whether a loader follows the slot; ChangeLog.acquire_slot_lock has the key."""
        return self.target.execute(_IS_LOCKED, (f"{slot} {self.schema}",)).fetchone() == (True,)


def emit_message(source: Connection) -> None:
    """Write a logical message into the source's WAL, so that an idle loader moves on.

    An idle loader does not move for less than 1 KiB of WAL. The message also flushes what was
    committed asynchronously. It writes no row.
    """
    with source.transaction():
        # Do not wait for a synchronous standby that is away.
        source.execute("set local synchronous_commit to 'local'")
        source.execute(
            "select pg_logical_emit_message(true, 'waltally', repeat(' ', %s))", (_MESSAGE_BYTES,)
        )


def require_follower(
    source: Connection | LoaderLock,
    settings: Settings,
    notify: Callable[[str], None],
    otherwise: str | None = None,
) -> None:
    """Return when a session follows the slot. Raises AuditIncomplete after a few seconds.

    A loader between two attempts to connect cannot be told from none, so this says at once who is
    missing, and waits for the next attempt. `otherwise` is another remedy for the error to name.
    """
    slot = settings.slot
    begun = time.monotonic()
    is_notified = False
    while not is_followed(source, slot):
        if time.monotonic() - begun > _FOLLOWER_SECONDS:
            raise not_followed(source, settings, otherwise)
        if not is_notified:
            is_notified = True
            notify(
                f"{follower(source, slot)}: waiting {_FOLLOWER_SECONDS:.0f} s for a `loader run`"
                " that connects again"
            )
        time.sleep(_POLL_SECONDS)


def not_followed(
    source: Connection | LoaderLock, settings: Settings, otherwise: str | None = None
) -> AuditIncomplete:
    """Return the error of a slot that nobody follows."""
    work = settings.work
    return AuditIncomplete(
        f"{follower(source, settings.slot)}, so the change log does not grow to where the"
        f" {work} counts",
        f"start `loader run`, then run the {work} again" + (f"; {otherwise}" if otherwise else ""),
    )


def wait_for_position(
    target: Connection,
    source: Connection | LoaderLock | None,
    settings: Settings,
    position: int,
    notify: Callable[[str], None],
) -> None:
    """Return when the change log holds every change below the position.

    Raises AuditIncomplete after `settings.timeout` seconds. Where nobody follows the slot,
    which only a `source` can tell, it is raised after a few seconds.
    """
    slot, timeout = settings.slot, settings.timeout
    begun = time.monotonic()
    notified = 0.0
    followed = begun
    while (reached := slot_position.read(target, settings.schema, slot).position_lsn) < position:
        now = time.monotonic()
        behind = (
            f"the loader is at {lsn.show(reached)}, {position - reached:,} bytes of WAL before"
            f" {lsn.show(position)}"
        )
        if source is None or is_followed(source, slot):
            followed = now
        elif now - followed > _FOLLOWER_SECONDS:
            raise not_followed(source, settings)
        who = f"; {follower(source, slot)}" if source is not None else ""
        if now - begun > timeout:
            raise AuditIncomplete(
                f"after {timeout:.0f} s {behind}{who}",
                "see with `loader status` that `loader run` gets on, then run the"
                f" {settings.work} again; a larger --timeout waits longer",
            )
        if now - notified > _NOTIFY_SECONDS:
            notified = now
            notify(f"waiting: {behind}{who}")
        time.sleep(_POLL_SECONDS)


def is_followed(source: Connection | LoaderLock, slot: str) -> bool:
    """Return whether a session follows the slot."""
    if isinstance(source, LoaderLock):
        return source.is_held(slot)
    row = source.execute(
        "select active_pid is not null from pg_replication_slots where slot_name = %s", (slot,)
    ).fetchone()
    return row == (True,)


def follower(source: Connection | LoaderLock, slot: str) -> str:
    """Return who follows the slot, as the end of a sentence."""
    if isinstance(source, LoaderLock):
        return f"{'a loader' if source.is_held(slot) else 'nobody'} follows the slot {slot}"
    row = source.execute(
        "select active_pid from pg_replication_slots where slot_name = %s", (slot,)
    ).fetchone()
    if row is None:
        return f"the slot {slot} does not exist"
    return f"pid {row[0]} follows the slot" if row[0] else f"nobody follows the slot {slot}"
