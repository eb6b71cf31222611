"""The fact brought to the snapshot's position, and judged by the counts there."""

from __future__ import annotations

from history import rules
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from auditing import comparing
from auditing.report import Difference, Rejected, Total, Verdict
from auditing.settings import Archived
from loader.tables import Table


def brought_forward(rows: DataFrame, log: DataFrame, tables: tuple[Table, ...]) -> DataFrame:
    """Return the fact's rows with the changes in `log` applied, as dbt would apply them."""
    live, archive = map(str, tables)
    truncated = {row["part"] for row in rules.truncated(log, live, archive).collect()}
    return comparing.moved(rows, rules.signed_deltas(log, live, archive), truncated)


def rejected(log: DataFrame, tables: tuple[Table, ...]) -> Rejected:
    """Return what of the changes in `log` cannot be counted."""
    live, archive = map(str, tables)
    row = (
        rules.rejected(log, live, archive)
        .agg(sql.count("*").alias("count"), sql.min("commit_lsn").alias("first_lsn"))
        .first()
    )
    assert row is not None
    return Rejected(row["count"], row["first_lsn"])


def judge(
    rows: DataFrame,
    forward: DataFrame,
    counts: DataFrame,
    tables: tuple[Table, ...],
    archived: Archived,
    limit: int,
) -> Verdict:
    """Compare the fact, `forward`, with the counts of rows, and the `total` of `rows` with itself.

    At most `limit` differences are listed, the largest first.
    """
    feeds = dict(zip(map(str, tables), comparing.PARTS, strict=True))
    both = comparing.compared(forward, comparing.counted(counts, feeds)).persist()
    found = comparing.differences(both, archived).unionAll(
        comparing.wrong_totals(rows, likelier_reading(rows))
    )
    size = sql.abs(found["fact"] - found["counted"])
    largest = found.orderBy(size.desc(), *found.columns).limit(limit).collect()
    row = both.agg(
        sql.count("*").alias("groups"),
        *(sql.coalesce(sql.sum(name), sql.lit(0)).alias(name) for name in both.columns[4:]),
    ).first()
    assert row is not None
    return Verdict(
        row["groups"],
        Total(row["live"], row["counted_live"]),
        Total(row["archived"], row["counted_archived"]),
        found.count(),
        [Difference(**each.asDict()) for each in largest],
    )


def likelier_reading(rows: DataFrame) -> str:
    """Return the reading of `count` that fewer rows contradict; both parts where none is better."""
    row = comparing.readings(rows).first()
    assert row is not None
    wrong = row.asDict()
    return min(wrong, key=lambda name: wrong[name])
