"""`loader run`: one session after another, with backoff between them, until stopped."""

from __future__ import annotations

import logging
import time
from contextlib import closing, suppress
from threading import Event

from loader.capture.events import Failed, Following, Notify, RunState, ignore
from loader.capture.session import Session
from waltally import lsn
from waltally.database import connect, connect_target
from waltally.errors import BROKEN, TRANSIENT, LoaderError, SlotInUse
from waltally.limits import limits
from waltally.settings import Settings

log = logging.getLogger("loader")

_ONCE_TRIES = 5
_NO_TIMEOUT_SECONDS = 60.0
"""How long a slot may be held by nobody where the server has no wal_sender_timeout."""


def follow(
    settings: Settings, stop: Event, run_state: RunState, once: bool, notify: Notify = ignore
) -> None:
    """Follow the slot until `stop` is set; with `once`, up to what is committed at the start.

    What waiting may heal is tried again: for ever, or five times with `once`. For a slot that an
    ended loader still holds, `once` waits as long as the server may take to see that it has ended.
    Raises LoaderError for the rest.
    """
    until = _end_of_source(settings) if once else None
    failures = 0
    failing_since = 0.0
    while not stop.is_set():
        stored = run_state.batches
        try:
            if _one_session(settings, stop, run_state, until, notify):
                return
            failures = 0
        except LoaderError as error:
            if run_state.position.stored and not error.safe:
                error.safe = f"everything before {lsn.show(run_state.position.stored)} is stored"
            if isinstance(error, BROKEN):
                _note(settings, error)
            if not isinstance(error, TRANSIENT):
                raise
            failures = 1 if run_state.batches > stored else failures + 1
            if failures == 1:
                failing_since = time.monotonic()
            if once and failures >= _ONCE_TRIES:
                seconds = time.monotonic() - failing_since
                if not isinstance(error, SlotInUse) or _is_held_for_good(settings, seconds):
                    raise
            pause = limits.follow_again[min(failures, len(limits.follow_again)) - 1]
            log.warning("%s; trying again in %g s", error, pause)
            if failures == 1 and error.remedy:
                log.warning("Try: %s", error.remedy)
            notify(Failed(error, retried=True))
            stop.wait(pause)


def _one_session(
    settings: Settings, stop: Event, run_state: RunState, until: int | None, notify: Notify
) -> bool:
    """Return whether there is nothing more to do; False where another session has to follow."""
    with closing(Session(settings, stop, run_state, notify)) as session:
        notify(Following())
        log.info(
            "following the slot %s from %s", settings.slot, lsn.show(run_state.position.stored)
        )
        session.follow(until)
        is_there = until is not None and run_state.position.stored >= until
        if stop.is_set() or is_there or not session.outdated:
            return True
        log.info(session.outdated)
        return False


def _note(settings: Settings, error: LoaderError) -> None:
    """Write down that the log does not go on, for cdc.wait_for, which asks the target alone."""
    with suppress(LoaderError), closing(connect_target(settings)) as target:
        target.ask_staging(
            "update {}.slot_position set broken = %s where slot_name = %s",
            (str(error), settings.slot),
        )


def _is_held_for_good(settings: Settings, seconds: float) -> bool:
    """Return whether waiting longer than these seconds frees no slot.

    Either its holder has answered meanwhile, so it is another loader, or the server had the time
    to see that it has ended.
    """
    with closing(connect(settings.source, "source")) as connection:
        ((timeout, is_answering),) = connection.ask(
            "select setting::float8 / 1000, exists ("
            " select from pg_replication_slots as slot"
            " inner join pg_stat_replication as sender on sender.pid = slot.active_pid"
            " where slot.slot_name = %s"
            " and sender.reply_time > clock_timestamp() - %s * interval '1 second')"
            " from pg_settings where name = 'wal_sender_timeout'",
            (settings.slot, seconds),
        )
    # Without a timeout nothing says that it has ended.
    return bool(is_answering) or seconds >= (timeout or _NO_TIMEOUT_SECONDS)


def _end_of_source(settings: Settings) -> int:
    """Return a position that the stream passes only after everything committed by now.

    It is the end of a logical message. The message flushes the WAL up to itself, so an idle server
    with asynchronous commits reaches the position too.
    """
    with (
        closing(connect(settings.source, "source")) as connection,
        connection.transaction(),
    ):
        connection.ask("set local synchronous_commit to 'local'")
        ((end,),) = connection.ask("select pg_logical_emit_message(true, 'waltally', '')")
    return lsn.parse(end)
