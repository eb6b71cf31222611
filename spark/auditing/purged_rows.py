"""How many rows were purged from the archive, which the fact keeps and the table does not.

The seed knows how many were purged before it, group by group, and the change log has the deletes
since. A TRUNCATE empties the archive in the fact too: only what was purged after it counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from common import changes
from common.arrow_source import Counters
from common.connections import Connection, literal
from common.progress import Measure, Progress
from deltas import rules
from facts import fact
from facts.settings import FactSettings
from pyspark.sql import DataFrame, SparkSession, functions

from auditing.report import Archived
from waltally import lsn
from waltally.tables import DIMENSIONS, Table

_TRUNCATES = "action is null or action = 'T'"
"""The words of the index change_log_truncates."""
_NAME_BYTES = 1000
"""A delete names its table in its first bytes; the values that follow may be long."""


@dataclass(frozen=True)
class PurgedRows:
    """The purged rows that are known: `rows` has the dimensions and `purged_count`, `count` all.

    `unseen` says why there may be more of them; None where these are all.
    """

    rows: DataFrame
    count: int
    unseen: str | None

    @property
    def archived(self) -> Archived:
        """How archived counts can be compared."""
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
    """Return what is known of the rows that were purged before `end`.

    `remembered` is what the newest seed knew. The change log must have come to `end`.
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
    # Asked last: what was pruned meanwhile may not have been read.
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
    """Return why the log does not tell of all purges since the fact's seed; None where it does."""
    if current.seed_lsn is None or not current.is_seeded:
        return "the fact stands on no seed; `spark-submit spark/seed.py`, then `dbt build`"
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
    """Return the condition on the log's rows that may be deletes from the archive."""
    # As the plugin writes it; a row whose letter the loader left open may be written otherwise.
    name = f'"table":{json.dumps(archive.name, ensure_ascii=False)}'
    return (
        "action is null"
        f" or action = 'D' and strpos(left(payload, {_NAME_BYTES}), {literal(name)}) > 0"
    )
