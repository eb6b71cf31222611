"""The traffic of the demo and of an example, in sessions that reconnect after a restart."""

from __future__ import annotations

from contextlib import closing, suppress
from random import Random
from typing import Any

import psycopg2

from examples.shop import changes as shop
from examples.shop.session import ShopSession
from testkit.notify_changes import Session, templates_of
from testkit.notify_traffic import mix
from testkit.source import Identity
from testkit.traffic import Sessions, truncates

_SESSIONS = 2
_RECONNECT_SECONDS = 0.1
_TRUNCATES_ARE_RARER = 60
"""A truncate sets counts to zero, which hides earlier mistakes."""


def stay_open(session: Any) -> int:
    """Keep the transaction open for a moment; others begin and commit meanwhile."""
    session.run("select pg_sleep(%s)", session.rng.uniform(0, 0.4))
    return 0


class Writers(Sessions[Any]):
    """Sessions that each write `rate` transactions per second until stopped."""

    def __init__(self, dsn: str, join: Any, kinds: dict[Any, int], seed: int, rate: float) -> None:
        often = {kind: weight * _TRUNCATES_ARE_RARER for kind, weight in kinds.items()}
        often[stay_open] = 4 * _TRUNCATES_ARE_RARER
        super().__init__(dsn, join, often | truncates(kinds), _SESSIONS, seed, rate)

    def _work(self, number: int, rng: Random, transactions: int | None) -> None:
        # A crash loses asynchronous commits; the slot must not have delivered them before.
        options = "-c synchronous_commit=off" if number == 0 else ""
        while not self._stopped.wait(_RECONNECT_SECONDS):
            with (
                suppress(psycopg2.OperationalError),
                closing(self._connect(options)) as connection,
            ):
                try:
                    self._write(number, connection, rng, transactions)
                except psycopg2.Error as error:
                    if not connection.closed:
                        self._errors.append(error)
                        return


def writers(dsn: str, seed: int, rate: float, identity: Identity) -> tuple[Writers, Writers]:
    """Return who writes notifications, and who writes for the shop."""
    templates = templates_of(dsn)

    def join(cursor: Any, random: Random) -> Session:
        return Session(cursor, random, templates, identity)

    notify = Writers(dsn, join, dict(mix(truncates=True)), seed, rate)
    return notify, Writers(dsn, ShopSession, shop.CHANGES | shop.TRUNCATES, seed, rate)
