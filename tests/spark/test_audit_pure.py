"""How the audit judges: small frames in, differences out, and what is printed of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from auditing import comparing, evaluation
from auditing.job import notes, refuse
from auditing.purged_rows import PurgedRows, why_unseen
from auditing.report import Comparison, Difference, LeftOut, Report, Total
from common.arrow_source import Snapshot
from common.settings import Settings
from facts.fact import Fact
from facts.rejected import Rejected
from facts.settings import FactSettings
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from waltally.errors import SettingError, SourceBehind, TableReplaced
from waltally.tables import Table, parse_tables

TABLES = parse_tables("public.notifications,public.notification_history")
DIMENSIONS = (
    "service_id string, template_id string, notification_type string, notification_status string"
)
FACT = f"{DIMENSIONS}, total bigint, live_count bigint, archived_count bigint"
COUNTS = f"source_table string, {DIMENSIONS}, row_count bigint, reason string"
PURGED = f"{DIMENSIONS}, purged_count bigint"
DELTAS = f"part string, {DIMENSIONS}, delta bigint"

SENT, FAILED, NEW = (("s", "t", "sms", status) for status in ("sent", "failed", "new"))


@pytest.fixture(scope="module")
def fact(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(*SENT, 7, 3, 4), (*FAILED, 0, 1, -2)], FACT)


def test_deltas_are_added_to_the_fact(spark: SparkSession, fact: DataFrame) -> None:
    deltas = spark.createDataFrame(
        [("live", *SENT, -1), ("archived", *SENT, 1), ("live", *NEW, 5)], DELTAS
    )
    forward = comparing.moved(fact, deltas, set()).collect()
    assert {tuple(row) for row in forward} == {(*SENT, 2, 5), (*FAILED, 1, -2), (*NEW, 5, 0)}


def test_a_truncate_takes_what_its_part_held_before(spark: SparkSession, fact: DataFrame) -> None:
    deltas = spark.createDataFrame([("live", *SENT, 2), ("archived", *SENT, 1)], DELTAS)
    live = comparing.moved(fact, deltas, {"live"}).collect()
    assert {tuple(row) for row in live} == {(*SENT, 2, 5), (*FAILED, 0, -2)}
    both = comparing.moved(fact, deltas, {"live", "archived"}).collect()
    assert {tuple(row) for row in both} == {(*SENT, 2, 1), (*FAILED, 0, 0)}


def judged(
    spark: SparkSession,
    counts: Sequence[tuple[object, ...]],
    purged: int = 0,
    unseen: str | None = None,
    limit: int = 50,
) -> Comparison:
    rows = spark.createDataFrame([(*SENT, 7, 3, 4), (*FAILED, 0, 0, 0), (*NEW, 1, 1, 0)], FACT)
    found = spark.createDataFrame([(*each, None) for each in counts], COUNTS)
    gone = spark.createDataFrame([(*SENT, purged)] if purged else [], PURGED)
    return evaluation.compare_fact(
        rows, rows, found, PurgedRows(gone, purged, unseen), TABLES, limit
    )


def test_purged_rows_stay_counted_and_nothing_else_does(spark: SparkSession) -> None:
    counts = [("public.notifications", *SENT, 3), ("public.notifications", *NEW, 1)]
    fewer = [*counts, ("public.notification_history", *SENT, 2)]
    assert judged(spark, fewer, purged=2).differences == []
    above = judged(spark, fewer, purged=1)
    assert above.differences == [Difference(*SENT, "archived_count", 4, 3)]
    assert (above.above_count, above.archive) == (1, Total(4, 3))
    below = judged(spark, fewer, purged=3)
    assert below.differences == [Difference(*SENT, "archived_count", 4, 5)]
    assert below.above_count == 0


def test_where_not_all_purged_rows_are_known_a_count_may_be_above(spark: SparkSession) -> None:
    counts = [("public.notifications", *SENT, 3), ("public.notifications", *NEW, 1)]
    fewer = [*counts, ("public.notification_history", *SENT, 2)]
    assert judged(spark, fewer, purged=1, unseen="pruned").differences == []
    assert judged(spark, fewer, purged=3, unseen="pruned").differences == [
        Difference(*SENT, "archived_count", 4, 5),
    ]


def test_what_cannot_be_counted_is_no_difference_but_is_told(spark: SparkSession) -> None:
    counts = spark.createDataFrame(
        [
            ("public.notifications", *SENT, 3, None),
            ("public.notifications", *NEW, 5, "too long"),
            ("public.notifications", *FAILED, 2, "too long"),
        ],
        COUNTS,
    )
    rows = spark.createDataFrame([(*SENT, 3, 3, 0)], FACT)
    none = PurgedRows(spark.createDataFrame([], PURGED), 0, None)
    assert evaluation.compare_fact(rows, rows, counts, none, TABLES, 5).difference_count == 0
    assert evaluation.left_out(counts) == [LeftOut("public.notifications", "too long", 7)]


def test_the_largest_differences_are_listed_and_all_are_counted(spark: SparkSession) -> None:
    counts = [
        ("public.notifications", *SENT, 1),
        ("public.notifications", "other", *SENT[1:], 9),
        ("public.notification_history", *SENT, 4),
    ]
    found = judged(spark, counts, limit=2)
    assert found == Comparison(
        4,
        Total(4, 10),
        Total(4, 4),
        3,
        [
            Difference("other", *SENT[1:], "live_count", 0, 9),
            Difference(*SENT, "live_count", 3, 1),
        ],
    )
    assert [each.difference for each in found.differences] == [-9, 2]


def test_nothing_on_both_sides_is_equal(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([], FACT)
    none = PurgedRows(spark.createDataFrame([], PURGED), 0, None)
    counts = spark.createDataFrame([], COUNTS)
    found = evaluation.compare_fact(nothing, nothing, counts, none, TABLES, 5)
    assert found == Comparison(0, Total(0, 0), Total(0, 0), 0, [])


@pytest.mark.parametrize(
    ("totals", "wrong"),
    [
        ((7, 0, 1), []),
        ((3, 1, 1), []),
        ((7, 0, 2), [Difference(*NEW, "count", 2, 1)]),
        ((3, 1, 9), [Difference(*NEW, "count", 9, 1)]),
    ],
)
def test_count_is_of_both_parts_or_of_the_live_one_in_all_rows(
    spark: SparkSession, totals: tuple[int, int, int], wrong: list[Difference]
) -> None:
    parts = ((*SENT, 3, 4), (*FAILED, 1, -2), (*NEW, 1, 0))
    rows = spark.createDataFrame(
        [(*part[:4], total, *part[4:]) for part, total in zip(parts, totals, strict=True)], FACT
    )
    found = comparing.wrong_totals(rows, evaluation.likelier_reading(rows)).collect()
    assert [Difference(**row.asDict()) for row in found] == wrong


STORED = Fact(
    100,
    10,
    20,
    Snapshot("", ""),
    [],
    "",
    True,
    True,
    {"public.x": {"oid": 1}},
    Rejected(0, None),
)


def test_a_fact_of_other_tables_or_of_a_lost_future_is_refused() -> None:
    archive = Table("public", "archive")
    refuse(STORED, 100, {"public.x": {"oid": 1}}, archive)
    with pytest.raises(SourceBehind, match="before the fact's position 0/64"):
        refuse(STORED, 99, {"public.x": {"oid": 1}}, archive)
    with pytest.raises(TableReplaced, match=r"public\.x is now another table"):
        refuse(STORED, 100, {"public.x": {"oid": 2}}, archive)


def test_what_may_explain_a_difference_is_said() -> None:
    assert notes(STORED, STORED.rejected) == []
    [unseeded] = notes(replace(STORED, is_seeded=False), STORED.rejected)
    assert "has no baseline" in unseeded
    [older] = notes(replace(STORED, is_on_newest_seed=False), STORED.rejected)
    assert "newest seed" in older
    [rejected] = notes(STORED, Rejected(0, None).and_then(Rejected(2, 255)))
    assert rejected.startswith("2 changes could not be counted, the first at 0/FF")
    assert Rejected(1, 9).and_then(Rejected(2, 255)) == Rejected(3, 9)


def test_why_purges_are_not_all_known_is_said_with_what_helps() -> None:
    assert why_unseen(STORED, 20) is None
    for case, start, says in (
        (STORED, 21, "begins at 0/15, after the seed at 0/14; after `spark-submit"),
        (replace(STORED, is_on_newest_seed=False), 10, "newest seed yet; `dbt build`"),
        (replace(STORED, is_seeded=False), 10, "no baseline; `spark-submit"),
        (replace(STORED, seed_lsn=None), 10, "no baseline; `spark-submit"),
    ):
        assert says in (why_unseen(case, start) or "")


REPORT = Report(
    "slot",
    "analytics.ft_service_stats",
    "at-least",
    "the log is pruned",
    3,
    16,
    255,
    7,
    Comparison(
        5,
        Total(1010, 9),
        Total(0, 0),
        3,
        [Difference("s", "t", "sms", "[bold]x", "live_count", 1002, 1)],
    ),
    Rejected(1, 20),
    [LeftOut("public.x", "too long", 4000)],
    ["why"],
    False,
    2,
)


def lines(report: Report) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=200, markup=False).print(report.render())
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_the_report_is_readable_and_takes_no_value_for_markup() -> None:
    said = lines(REPORT)
    assert "s t sms [bold]x live_count 1,002 1 +1,001" in said
    assert "and 2 differences that are not larger; --limit shows more" in said
    assert "Note: why" in said
    assert "Left out: 4,000 rows of public.x: too long" in said
    assert "live_count 1,010 9 +1,001" in said
    assert said[-1] == (
        "3 differences in 5 groups of analytics.ft_service_stats, read at 0/10, and the tables at"
        " 0/FF, 7 changes later; 2.0 s"
    )


def test_a_report_without_differences_says_what_it_cannot_see() -> None:
    equal = replace(
        REPORT, comparison=replace(REPORT.comparison, difference_count=0, differences=[])
    )
    [unseen] = [line for line in lines(equal) if "the log is pruned" in line]
    assert unseen.startswith("archived_count may be too high without being listed")
    assert any("4,000 rows of public.x" in line for line in lines(equal))
    all_seen = lines(replace(equal, unseen=None))
    assert "3 rows that were purged from the archive stay counted" in all_seen


def test_the_remedy_is_the_one_that_mends() -> None:
    assert REPORT.remedy() == "`spark-submit spark/seed.py`, then `dbt build`"
    above = replace(REPORT, comparison=replace(REPORT.comparison, above_count=1))
    assert above.remedy().startswith("`spark-submit spark/seed.py --forget-purged`, then `dbt bu")
    whole = replace(above, is_whole=True).remedy()
    assert whole.startswith("`dbt build --full-refresh`; if the audit differs after that, `spark-")
    assert "--forget-purged" in whole


def test_a_schema_without_a_name_is_refused() -> None:
    with pytest.raises(SettingError, match="DBT_SCHEMA"):
        FactSettings(Settings("", "", "slot", TABLES, "cdc"), "")
