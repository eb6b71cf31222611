"""Waits until the loader follows what models need, and has staged all changes before a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from math import inf

from waltally import locks, lsn
from waltally.database import Connection
from waltally.models import Model
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.common.progress import polls, print_status

_PAUSE_SECONDS = 0.02
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
    target: TargetSession, settings: Settings, otherwise: str = "", until: float = inf
) -> None:
    """Return when a loader follows the slot. Raises AuditIncomplete after a few seconds.

    A loader between two attempts to connect cannot be told from none, so this says at once who is
    missing, and waits for the next attempt, `until` a time at most. `otherwise` is another remedy
    for the error to name.
    """
    work = settings.work

    def overdue() -> AuditIncomplete:
        return AuditIncomplete(
            f"nobody follows the slot {settings.slot}, so the change log does not grow to where the"
            f" {work} counts",
            f"start `loader run`, then run the {work} again"
            + (f"; {otherwise}" if otherwise else ""),
        )

    def say() -> None:
        print_status(
            f"nobody follows the slot {target.slot}: waiting {_FOLLOWER_SECONDS:.0f} s for a"
            " `loader run` that connects again"
        )

    deadline = min(time.monotonic() + _FOLLOWER_SECONDS, until)
    for _ in polls(deadline, overdue, say, 0, _PAUSE_SECONDS):
        if is_followed(target):
            return


def wait_for_position(target: TargetSession, settings: Settings, position: int) -> None:
    """Return when the change log holds every change below the position.

    A lock tells the loader that somebody waits, as in cdc.wait_for: it then stores the position
    also where the source has written little.
    Raises AuditIncomplete after `settings.timeout` seconds, and after a few where nobody follows
    the slot.
    """
    reached, deadline = 0, time.monotonic() + settings.timeout

    def behind() -> str:
        return (
            f"the loader is at {lsn.show(reached)}, {position - reached:,} bytes of WAL before"
            f" {lsn.show(position)}"
        )

    with target.transaction():
        lock = f"{target.table('lock_key')}('wait', %s)"
        target.ask(f"select pg_advisory_xact_lock_shared({lock})", (target.slot,))
        for _ in _waits(settings, deadline, behind, "that `loader run` gets on"):
            reached = target.position().position_lsn
            if reached >= position:
                return
            require_follower(target, settings, until=deadline)


def wait_until_followed(target: TargetSession, settings: Settings, models: Sequence[Model]) -> None:
    """Return when the log holds every needed column from some position on, or will do so.

    A running loader sees within seconds that `loader setup` has registered more. Where nobody
    follows the slot, the next session begins with it, at a position before any later snapshot of
    the source.
    Raises AuditIncomplete after `settings.timeout` seconds.
    """
    missing: list[str] = []
    deadline = time.monotonic() + settings.timeout

    def lacking() -> str:
        return f"the log does not hold {', '.join(missing)} yet"

    for _ in _waits(settings, deadline, lacking, "what the loader waits for"):
        missing = target.unfollowed(models)
        if not missing or not is_followed(target):
            return


def _waits(
    settings: Settings, deadline: float, lacking: Callable[[], str], see: str
) -> Iterator[None]:
    """Yield until the deadline, and say what is lacking. Raises AuditIncomplete."""

    def overdue() -> AuditIncomplete:
        return AuditIncomplete(
            f"after {settings.timeout:.0f} s {lacking()}",
            f"see with `loader status` {see}, then run the {settings.work} again; a larger"
            " --timeout waits longer",
        )

    def say() -> None:
        print_status(f"waiting: {lacking()}")

    return polls(deadline, overdue, say, 0, _PAUSE_SECONDS)
