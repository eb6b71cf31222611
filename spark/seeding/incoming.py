"""The incoming table, beside the baselines, and how groups come into it."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator

import psycopg
from common import arrow_sink
from common.connections import Connection
from common.errors import AnotherSeed, CountingFailed
from common.settings import Settings
from counting.counts import COLUMNS
from pyspark.sql import DataFrame

from waltally import locks
from waltally.settings import jobs_schema
from waltally.tables import Table

_POLL_SECONDS = 0.2


def incoming_table(settings: Settings) -> Table:
    """Return the slot's incoming table."""
    mark = hashlib.sha256(settings.slot.encode()).hexdigest()[:16]
    return Table(jobs_schema(settings.schema), f"baseline_group_incoming_{mark}")


@contextlib.contextmanager
def acquire_seed_lock(
    target: Connection, settings: Settings, notify: Callable[[str], None]
) -> Iterator[None]:
    """Keep other seeds of the slot away, and make an empty incoming table for the block.

    Waits `settings.timeout` seconds for another seed, then raises AnotherSeed. So no seed takes its
    snapshot before another one has stored a baseline that it would replace.
    """
    key = {"key": locks.key("seed", settings.schema, settings.slot)}
    deadline = time.monotonic() + settings.timeout
    notified = False
    while target.execute(locks.TRY, key).fetchone() != (True,):
        if not notified:
            notify(f"waiting for another seed of slot {settings.slot}")
            notified = True
        if time.monotonic() > deadline:
            raise AnotherSeed(
                f"another seed of slot {settings.slot} is running",
                "let it end, then run the seed again, or raise --timeout",
            )
        time.sleep(_POLL_SECONDS)
    incoming = incoming_table(settings).quoted
    # A killed seed leaves its table.
    target.execute(f"drop table if exists {incoming}")
    target.execute(
        f"create unlogged table {incoming} (fact text, part text, dimensions text[],"
        " row_count bigint, sums text[], reason text, example text, attempt bigint)"
    )
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            target.execute(f"drop table if exists {incoming}")


def write(groups: DataFrame, target: Connection, table: Table) -> None:
    """Append the groups, which have the columns COLUMNS, to the incoming table.

    Only rows of the attempts that Spark reports are kept. Raises CountingFailed.
    """
    written = arrow_sink.append(groups.select(*COLUMNS), target, table)
    with target.transaction():
        target.execute(f"delete from {table.quoted} where attempt <> all(%s)", (written.attempts,))
        found = target.execute(f"select count(*) from {table.quoted}").fetchone()
    if found != (written.row_count,):
        raise CountingFailed(
            f"Spark reports {written.row_count:,} groups and {found and found[0]:,} are stored",
            "run the seed again",
        )
