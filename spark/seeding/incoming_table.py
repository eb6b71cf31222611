"""The slot's incoming table, and the lock of the one seed that may fill it."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator

import psycopg
from common.connections import Connection
from common.errors import AnotherSeed
from common.settings import Settings

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
    key = {"key": f"waltally seed {settings.schema} {settings.slot}"}
    deadline = time.monotonic() + settings.timeout
    notified = False
    while target.execute(
        "select pg_try_advisory_lock(hashtextextended(%(key)s, 0))", key
    ).fetchone() != (True,):
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
