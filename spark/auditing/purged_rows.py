"""Finds the rows that were purged from the archive: the fact counts them, the table lacks them.

The baseline has the purged rows of each group from before it, and the change log has the deletes
since then. A TRUNCATE empties the archive in the fact too: only rows purged after it count.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from common import changes
from common.arrow_source import Counters
from common.connections import Connection
from common.progress import Measure, Progress
from deltas import rules
from facts import fact
from facts.settings import FactSettings
from pyspark.sql import DataFrame, SparkSession, functions

from auditing.report import Archived
from waltally import lsn
from waltally.tables import DIMENSIONS, Table, literal

_TRUNCATES = "action is null or action = 'T'"
"""The condition of the index change_log_truncates."""
_NAME_BYTES = 1000
"""A delete has its table's name in its first bytes; the values after it can be long."""


@dataclass(frozen=True)
class PurgedRows:
    """The known purged rows: `rows` has the dimensions and `purged_count`, `count` is the total.

    `unseen` says why there may be more; None where these are all.
    """

    rows: DataFrame
    count: int
    unseen: str | None

    @property
    def archived(self) -> Archived:
        """Return how archived counts can be compared."""
        return "exact" if self.unseen is None else "at-least"


def read(
    spark: SparkSession,
    target: Connection,
    settings: FactSettings,
    current: fact.Fact,
    remembered: DataFrame,
    end: int,
    notify: Callable[[str], None],
) -> PurgedRows:
    """Return the rows that were purged before `end`, as far as they are known.

    `remembered` are the purged rows of the newest baseline. The change log must have reached `end`.
    """
    reading = settings.reading
    live, archive = map(str, reading.tables)
    place = (spark, target, reading.schema, reading.slot)
    begin = max(current.log_start, current.seed_lsn or 0)

    truncates = changes.between(*place, [begin, end], _TRUNCATES)
    last = rules.last_truncates(truncates, live, archive).where("part = 'archived'").first()
    if last is not None:
        begin = last["commit_lsn"]
    cuts = [begin, *changes.ends(target, reading.schema, reading.slot, begin, end)]
    notify(f"looking for purged rows of {archive} from {lsn.show(begin)} on")
    counters = Counters(spark)
    log = changes.between(*place, cuts, _deletes(reading.tables[1]), counters=counters)
    if last is not None:
        log = log.where(
            functions.struct("commit_lsn", "ordinal")
            > functions.struct(
                functions.lit(last["commit_lsn"]).cast("bigint"),
                functions.lit(last["ordinal"]).cast("bigint"),
            )
        )
    found = (
        rules.archived_deletes(log, live, archive)
        .groupBy("is_known", *DIMENSIONS)
        .agg(functions.count("*").alias("purged_count"), functions.min("commit_lsn").alias("first"))
        .persist()
    )
    with Progress(lambda: Measure(counters.size, len(cuts) - 1), lambda: None):
        found.count()
    unknown = found.where("not is_known").first()
    # After the read: changes that are pruned meanwhile may not have been read.
    start = fact.slot(target, settings).start_lsn
    unseen = None
    if last is None or start > begin:
        unseen = why_unseen(current, start)
    rows = found.where("is_known").select(*DIMENSIONS, "purged_count")
    if unseen is None and last is None:
        rows = rows.unionByName(remembered)
    if unseen is None and unknown is not None:
        unseen = (
            f"{unknown['purged_count']:,} changes in the log, the first at"
            f" {lsn.show(unknown['first'])}, may be deletes from {archive} and do not say of which"
            " group; `loader setup --check` says where the table is the cause, and after"
            " `spark-submit spark/seed.py`, then `dbt build`, they no longer matter"
        )
    total = rows.agg(functions.sum("purged_count")).first()
    assert total is not None
    return PurgedRows(rows, total[0] or 0, unseen)


def why_unseen(current: fact.Fact, start: int) -> str | None:
    """Return why the log lacks purges since the fact's baseline; None where it has all."""
    if current.seed_lsn is None or not current.is_seeded:
        return "the fact has no baseline; `spark-submit spark/seed.py`, then `dbt build`"
    if not current.is_on_newest_seed:
        return "the fact does not stand on the newest seed yet; `dbt build`"
    if start > current.seed_lsn:
        return (
            f"the change log begins at {lsn.show(start)}, after the seed at"
            f" {lsn.show(current.seed_lsn)}; after `spark-submit spark/seed.py`, then `dbt build`,"
            " all purges from then on are known"
        )
    return None


def _deletes(archive: Table) -> str:
    """Return the SQL condition of the log's rows that may be deletes from the archive."""
    # As wal2json writes it. Rows without an action may be written in another way.
    name = f'"table":{json.dumps(archive.name, ensure_ascii=False)}'
    return (
        "action is null"
        f" or action = 'D' and strpos(left(payload, {_NAME_BYTES}), {literal(name)}) > 0"
    )
