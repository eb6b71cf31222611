"""Waits until the loader follows what models need, and has staged all changes before a position."""

from __future__ import annotations

import time
from collections.abc import Sequence

from waltally import locks, lsn
from waltally.database import Connection
from waltally.models import Model
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.common.progress import print_status

_POLL_SECONDS = 0.02
_NOTIFY_SECONDS = 10.0
_FOLLOWER_SECONDS = 6.0
"""Longer than a loader needs to follow again after it has lost its connection: 5 s."""
_MESSAGE_BYTES = 2048


def is_followed(target: TargetSession) -> bool:
    """Return whether a loader follows the slot: it holds a lock at the target meanwhile."""
    key = {"key": locks.key("loader", target.schema, target.slot)}
    return target.ask(locks.IS_HELD, key) == [(True,)]


def emit_message(source: Connection) -> None:
    """Write a logical message into the source's WAL, so that an idle loader moves on.

    An idle loader does not move for less than 1 KiB of WAL. The message also flushes what was
    committed asynchronously. It writes no row.
    """
    with source.transaction():
        # Do not wait for a synchronous standby that is away.
        source.ask("set local synchronous_commit to 'local'")
        source.ask(
            "select pg_logical_emit_message(true, 'waltally', repeat(' ', %s))", (_MESSAGE_BYTES,)
        )


def require_follower(
    target: TargetSession, settings: Settings, otherwise: str | None = None
) -> None:
    """Return when a loader follows the slot. Raises AuditIncomplete after a few seconds.

    A loader between two attempts to connect cannot be told from none, so this says at once who is
    missing, and waits for the next attempt. `otherwise` is another remedy for the error to name.
    """
    if is_followed(target):
        return
    print_status(
        f"nobody follows the slot {target.slot}: waiting {_FOLLOWER_SECONDS:.0f} s for a"
        " `loader run` that connects again"
    )
    deadline = time.monotonic() + _FOLLOWER_SECONDS
    while not is_followed(target):
        if time.monotonic() > deadline:
            raise not_followed(settings, otherwise)
        time.sleep(_POLL_SECONDS)


def not_followed(settings: Settings, otherwise: str | None = None) -> AuditIncomplete:
    """Return the error of a slot that nobody follows."""
    work = settings.work
    return AuditIncomplete(
        f"nobody follows the slot {settings.slot}, so the change log does not grow to where the"
        f" {work} counts",
        f"start `loader run`, then run the {work} again" + (f"; {otherwise}" if otherwise else ""),
    )


def wait_for_position(target: TargetSession, settings: Settings, position: int) -> None:
    """Return when the change log holds every change below the position.

    A lock tells the loader that somebody waits, as in cdc.wait_for: it then stores the position
    also where the source has written little.
    Raises AuditIncomplete after `settings.timeout` seconds, and after a few where nobody follows
    the slot.
    """
    wait = _Wait(settings)
    followed = time.monotonic()
    with target.transaction():
        lock = f"{target.table('lock_key')}('wait', %s)"
        target.ask(f"select pg_advisory_xact_lock_shared({lock})", (target.slot,))
        while (reached := target.position().position_lsn) < position:
            now = time.monotonic()
            if is_followed(target):
                followed = now
            elif now - followed > _FOLLOWER_SECONDS:
                raise not_followed(settings)
            behind = (
                f"the loader is at {lsn.show(reached)}, {position - reached:,} bytes of WAL before"
                f" {lsn.show(position)}"
            )
            wait.once_more(behind, "that `loader run` gets on", f"waiting: {behind}")


def wait_until_followed(target: TargetSession, settings: Settings, models: Sequence[Model]) -> None:
    """Return when the log holds every needed column from some position on, or will do so.

    A running loader sees within seconds that `loader setup` has registered more. Where nobody
    follows the slot, the next session begins with it, at a position before any later snapshot of
    the source.
    Raises AuditIncomplete after `settings.timeout` seconds.
    """
    wait = _Wait(settings)
    while missing := target.unfollowed(models):
        if not is_followed(target):
            return
        names = ", ".join(missing)
        wait.once_more(
            f"the log does not hold {names} yet; is it running?",
            "what the loader waits for",
            f"waiting until the loader follows {names}",
        )


class _Wait:
    """A wait for the loader, `settings.timeout` seconds at most, that is said every ten."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._begun = time.monotonic()
        self._notified = 0.0

    def once_more(self, lacking: str, see: str, said: str) -> None:
        """Sleep shortly. Raises AuditIncomplete, with what is lacking, where the time is over."""
        settings, now = self._settings, time.monotonic()
        if now - self._begun > settings.timeout:
            raise AuditIncomplete(
                f"after {settings.timeout:.0f} s {lacking}",
                f"see with `loader status` {see}, then run the {settings.work} again; a larger"
                " --timeout waits longer",
            )
        if now - self._notified > _NOTIFY_SECONDS:
            self._notified = now
            print_status(said)
        time.sleep(_POLL_SECONDS)
