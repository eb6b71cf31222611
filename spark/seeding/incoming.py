"""The incoming table, beside the baselines, and how groups come into it."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

from common import arrow
from common.connections import TargetSession
from common.errors import AnotherSeed, CountingFailed
from common.progress import print_status
from common.settings import Settings
from counting.counts import COLUMNS
from pyspark.sql import DataFrame

from waltally import locks
from waltally.errors import LoaderError
from waltally.settings import jobs_schema
from waltally.tables import Table


def incoming_table(target: TargetSession) -> Table:
    """Return the slot's incoming table."""
    mark = hashlib.sha256(target.slot.encode()).hexdigest()[:16]
    return Table(jobs_schema(target.schema), f"baseline_group_incoming_{mark}")


@contextlib.contextmanager
def acquire_seed_lock(target: TargetSession, settings: Settings) -> Iterator[None]:
    """Keep other seeds of the slot away, and make an empty incoming table for the block.

    Waits `settings.timeout` seconds for another seed, then raises AnotherSeed. So no seed takes its
    snapshot before another one has stored a baseline that it would replace.
    """
    names = (target.schema, target.slot)
    if not locks.acquire(target, "seed", *names):
        print_status(f"waiting for another seed of slot {target.slot}")
        if not locks.acquire(target, "seed", *names, seconds=settings.timeout):
            raise AnotherSeed(
                f"another seed of slot {target.slot} is running",
                "let it end, then run the seed again, or raise --timeout",
            )
    incoming = incoming_table(target).quoted
    # A killed seed leaves its table.
    target.ask(f"drop table if exists {incoming}")
    target.ask(
        f"create unlogged table {incoming} (fact text, part text, dimensions text[],"
        " row_count bigint, sums text[], reason text, example text, attempt bigint)"
    )
    try:
        yield
    finally:
        with contextlib.suppress(LoaderError):
            target.ask(f"drop table if exists {incoming}")


def write(groups: DataFrame, target: TargetSession, table: Table) -> None:
    """Append the groups, which have the columns COLUMNS, to the incoming table.

    Only rows of the attempts that Spark reports are kept. Raises CountingFailed.
    """
    written = arrow.append(groups.select(*COLUMNS), target, table)
    with target.transaction():
        target.ask(f"delete from {table.quoted} where attempt <> all(%s)", (written.attempts,))
        ((stored,),) = target.ask(f"select count(*) from {table.quoted}")
    if stored != written.row_count:
        raise CountingFailed(
            f"Spark reports {written.row_count:,} groups and {stored:,} are stored",
            "run the seed again",
        )
