"""What a loader does at the target while it catches up: positions, and open transactions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import psycopg2

from benchmarks.freshness.poller import MODEL

_POLL = 0.02
_PATIENCE = 900.0

_LOADER, _DBT = "waltally loader", "dbt"

# Ages by the clock, for now() stands still in the asking transaction.
_LOOK = f"""
select
    (select (position_lsn - '0/0')::bigint from cdc.slot_position where slot_name = %(slot)s),
    coalesce((
        select (applied_lsn - '0/0')::bigint
        from cdc.model_watermark
        where slot_name = %(slot)s and model_name = '{MODEL}'
    ), 0),
    coalesce(max(age) filter (where application_name = '{_LOADER}'), 0),
    coalesce(max(age) filter (where application_name = '{_DBT}'), 0)
from (
    select application_name, extract(epoch from clock_timestamp() - xact_start)::float as age
    from pg_stat_activity
    where backend_type = 'client backend'
) as sessions
"""


class Moment(NamedTuple):
    """What one look found."""

    at: float
    """Seconds since the loader was started."""
    position: int
    """Every transaction with a commit LSN below it is staged, in bytes of WAL."""
    applied: int
    """Every transaction with a commit LSN below it is in the fact."""


class Course(NamedTuple):
    """How a catching up went."""

    moments: list[Moment]
    """Each change of a position, in order."""
    dbt_ready: float
    """When dbt was first seen in a transaction, in seconds since the loader was started."""
    longest_staging: float
    """The longest that a transaction of the loader's own was seen open, in seconds."""
    longest_build: float
    """The same of dbt's."""

    def staged(self, end: int) -> float:
        """Return the seconds until everything before `end` was staged."""
        return next(moment.at for moment in self.moments if moment.position > end)

    def visible(self, end: int) -> float:
        """Return the seconds until everything before `end` was in the fact."""
        return next(moment.at for moment in self.moments if moment.applied > end)


def watch(dsn: str, slot: str, end: int, began: float, check: Callable[[], None]) -> Course:
    """Look at the target every 20 ms until the fact has the transaction around `end`.

    `began` is the loader's start on this machine's clock; `check` raises where it has ended.
    Raises RuntimeError after 15 minutes.
    """
    moments: list[Moment] = []
    staging = build = dbt_ready = 0.0
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            while time.time() - began < _PATIENCE:
                cursor.execute(_LOOK, {"slot": slot})
                ((position, applied, open_staging, open_build),) = cursor.fetchall()
                moment = Moment(time.time() - began, position, applied)
                if not moments or moment[1:] != moments[-1][1:]:
                    moments.append(moment)
                staging, build = max(staging, open_staging), max(build, open_build)
                if build and not dbt_ready:
                    dbt_ready = moment.at
                if applied > end:
                    return Course(moments, dbt_ready, staging, build)
                check()
                time.sleep(_POLL)
    raise RuntimeError(f"not caught up in {_PATIENCE:.0f} s: {moments[-1]}, of {end}")
