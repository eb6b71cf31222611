"""`loader run`: sessions one after the other, with backoff between, until stopped."""

from __future__ import annotations

import logging
from contextlib import closing
from threading import Event

from loader import lsn, slot
from loader.database import connect
from loader.errors import TRANSIENT, LoaderError
from loader.events import Failed, Following, Notify, ignore
from loader.session import Session, Totals
from loader.settings import Settings

log = logging.getLogger("loader")

_BACKOFF = (1.0, 2.0, 5.0, 10.0, 30.0)
_ONCE_TRIES = 5


def follow(
    settings: Settings, stop: Event, totals: Totals, once: bool, notify: Notify = ignore
) -> None:
    """Follow the slot until `stop` is set; with `once`, up to what is committed at the start.

    What waiting may heal is tried again: for ever, or five times with `once`.
    Raises LoaderError for the rest.
    """
    until = _end_of_source(settings) if once else None
    failures = 0
    while not stop.is_set():
        stored = totals.batches
        try:
            _one_session(settings, stop, totals, until, notify)
            return
        except LoaderError as error:
            if totals.position and not error.safe:
                error.safe = f"everything before {lsn.show(totals.position)} is stored"
            if not isinstance(error, TRANSIENT):
                raise
            failures = 1 if totals.batches > stored else failures + 1
            if once and failures >= _ONCE_TRIES:
                raise
            pause = _BACKOFF[min(failures, len(_BACKOFF)) - 1]
            log.warning("%s; trying again in %g s", error, pause)
            if failures == 1 and error.remedy:
                log.warning("Try: %s", error.remedy)
            notify(Failed(error, retried=True))
            stop.wait(pause)


def _one_session(
    settings: Settings, stop: Event, totals: Totals, until: int | None, notify: Notify
) -> None:
    with closing(Session(settings, stop, totals, notify)) as session:
        notify(Following())
        log.info("following the slot %s from %s", settings.slot, lsn.show(totals.position))
        session.follow(until)


def _end_of_source(settings: Settings) -> int:
    with closing(connect(settings.source, "source")) as connection:
        return slot.mark_end(connection)
