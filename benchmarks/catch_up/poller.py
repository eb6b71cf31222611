"""How a loader catches up, as the target shows it: positions and open transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import psycopg2

from benchmarks.workload import MODEL

_POLL = 0.02
_PATIENCE = 900.0

_LOADER, _APPLY = "waltally loader", "waltally apply"

# clock_timestamp(), because now() does not move within a transaction.
_QUERY = f"""
select
    (select (position_lsn - '0/0')::bigint from cdc.slot_position where slot_name = %(slot)s),
    coalesce((
        select (applied_lsn - '0/0')::bigint
        from cdc.model_watermark
        where slot_name = %(slot)s and model_name = '{MODEL}'
    ), 0),
    coalesce(max(age) filter (where application_name = '{_LOADER}'), 0),
    coalesce(max(age) filter (where application_name = '{_APPLY}'), 0)
from (
    select application_name, extract(epoch from clock_timestamp() - xact_start)::float as age
    from pg_stat_activity
    where backend_type = 'client backend'
) as sessions
"""


class Observation(NamedTuple):
    """What one query found."""

    at: float
    """Seconds since the loader was started."""
    position: int
    """Every transaction with a commit LSN below it is staged, in bytes of WAL."""
    applied: int
    """Every transaction with a commit LSN below it is in the model."""


class CatchUp(NamedTuple):
    """How the loader caught up."""

    observations: list[Observation]
    """Each change of a position, in order."""
    longest_staging: float
    """The longest time that a transaction of the loader itself was open, in seconds."""
    longest_build: float
    """The same for cdc.apply."""

    def staged(self, end: int) -> float:
        """Return the seconds until everything before `end` was staged."""
        return next(
            observation.at for observation in self.observations if observation.position > end
        )

    def visible(self, end: int) -> float:
        """Return the seconds until everything before `end` was in the model."""
        return next(
            observation.at for observation in self.observations if observation.applied > end
        )


def poll(dsn: str, slot: str, end: int, began: float, check: Callable[[], None]) -> CatchUp:
    """Query the target every 20 ms until the model has the transaction around `end`.

    `began` is the loader's start on this machine's clock; `check` raises where it has ended.
    Raises RuntimeError after 15 minutes.
    """
    observations: list[Observation] = []
    staging = build = 0.0
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            while time.time() - began < _PATIENCE:
                cursor.execute(_QUERY, {"slot": slot})
                ((position, applied, open_staging, open_build),) = cursor.fetchall()
                observation = Observation(time.time() - began, position, applied)
                if not observations or observation[1:] != observations[-1][1:]:
                    observations.append(observation)
                staging, build = max(staging, open_staging), max(build, open_build)
                if applied > end:
                    return CatchUp(observations, staging, build)
                check()
                time.sleep(_POLL)
    raise RuntimeError(f"not caught up in {_PATIENCE:.0f} s: {observations[-1]}, of {end}")
