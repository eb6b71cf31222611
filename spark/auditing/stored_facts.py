"""The facts as an audit reads them, and why a fact cannot be compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from common.connections import TargetSession
from common.progress import print_status
from common.settings import Settings
from common.spark_errors import spark_errors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import fact_state
from warehouse.fact import Built, open_facts

from loader.source import table_identity
from loader.source.table_identity import TableIdentities
from waltally import lsn
from waltally.errors import LoaderError, SourceBehind, TableReplaced
from waltally.facts import Fact

APPLY_SECONDS = 10.0
"""How long an audit waits for the apply that takes a new baseline."""


@dataclass(frozen=True)
class StoredFact:
    """A fact as it was read: cached, as its snapshot has ended.

    `archived` has the deletes that it ignored.
    """

    built: Built
    rows: DataFrame
    archived: DataFrame


def readable(
    target: TargetSession, facts: Sequence[Fact]
) -> tuple[list[Fact], dict[str, LoaderError]]:
    """Return the facts that can be compared, and by name why the others cannot."""
    deadline = time.monotonic() + APPLY_SECONDS
    while fact_state.is_rebuild_due(target, facts) and time.monotonic() < deadline:
        time.sleep(0.2)
    fit, refused = [], {}
    for fact in facts:
        try:
            # Before Spark starts, which takes seconds.
            fact_state.applied_lsn(target, fact)
            fit.append(fact)
        except LoaderError as error:
            refused[fact.name] = error
    return fit, refused


def read(
    spark: SparkSession, target: TargetSession, settings: Settings, facts: Sequence[Fact]
) -> list[StoredFact]:
    """Read the facts' rows and the deletes that they ignored, in one Spark job."""
    with (
        open_facts(target, facts) as found,
        spark_errors(settings.work),
    ):
        for each in found:
            print_status(f"reading {each.fact.relation} at {lsn.show(each.position)}")
        stored = [each.stored(spark).withColumn("fact", sql.lit(each.fact.name)) for each in found]
        rows = cached(reduce(DataFrame.unionByName, stored))
    own = [rows.where(sql.col("fact") == each.fact.name) for each in found]
    return [
        StoredFact(
            each,
            mine.where("part is null"),
            mine.where("part is not null").select("part", "dimensions", "sums"),
        )
        for each, mine in zip(found, own, strict=True)
    ]


def cached(rows: DataFrame) -> DataFrame:
    """Read the rows now and cache them: after the snapshot has ended they cannot be read again."""
    rows = rows.persist()
    rows.count()
    return rows


def is_of_these(
    found: StoredFact, position: int, known: TableIdentities, refused: dict[str, LoaderError]
) -> bool:
    """Return whether the fact was built from these tables; else note why not in `refused`."""
    try:
        refuse(found.built, position, known)
    except TableReplaced as error:
        refused[found.built.fact.name] = error
        return False
    return True


def refuse(built: Built, position: int, found: TableIdentities) -> None:
    """Raise SourceBehind or TableReplaced where the fact was built from other tables."""
    if position < built.position:
        raise SourceBehind(
            f"the source's WAL ends at {lsn.show(position)}, before the position"
            f" {lsn.show(built.position)} of {built.fact.relation}: it was restored or failed over"
            " with loss",
            "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`",
        )
    finding = table_identity.replaced_finding(built.fact, built.counted, found)
    if finding is not None:
        raise finding
