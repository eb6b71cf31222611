"""How the audit judges: small frames in, differences out, and what is printed of them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from auditing import evaluation
from auditing.job import notes, refuse, show, why_unseen
from auditing.report import Comparison, Difference, FactReport, LeftOut, Report, Total
from common.arrow import Snapshot
from common.errors import AuditIncomplete
from deltas.rules import Rejected
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from rich.console import Console
from warehouse.fact import Built

from loader.source.table_identity import TableIdentities
from testkit.facts import notify
from tests.spark.shop import orders
from waltally.errors import SourceBehind, TableReplaced
from waltally.escapes import escaped

GROUP = "dimensions array<string>, sums array<string>"
COUNTS = (
    "part string, dimensions array<string>, row_count bigint, sums array<string>, reason string"
)
DELTAS = f"part string, {GROUP}"
FACT = notify()
NAMES = ("service_id", "template_id", "notification_type", "notification_status")

SENT, FAILED, NEW = (("s", "t", "sms", status) for status in ("sent", "failed", "new"))
OTHER = ("other", "t", "sms", "sent")


def groups(
    spark: SparkSession, found: Mapping[tuple[str, ...], Sequence[Any]], schema: str = GROUP
) -> DataFrame:
    return spark.createDataFrame(
        [(list(group), [str(each) for each in sums]) for group, sums in found.items()], schema
    )


def deltas(spark: SparkSession, *found: tuple[str, tuple[str, ...], Sequence[Any]]) -> DataFrame:
    return spark.createDataFrame(
        [(part, list(group), [str(each) for each in sums]) for part, group, sums in found], DELTAS
    )


def read(frame: DataFrame) -> dict[tuple[str, ...], list[str]]:
    return {tuple(row["dimensions"]): row["sums"] for row in frame.collect()}


def named(group: tuple[str, ...]) -> dict[str, str | None]:
    return dict(zip(NAMES, group, strict=True))


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return groups(spark, {SENT: (3, 4), FAILED: (1, -2)})


def test_deltas_are_added_to_the_fact(spark: SparkSession, rows: DataFrame) -> None:
    came = deltas(spark, ("live", SENT, (-1, 0)), ("archived", SENT, (0, 1)), ("live", NEW, (5, 0)))
    assert read(evaluation.moved(rows, came, FACT, set())) == {
        SENT: ["2", "5"],
        FAILED: ["1", "-2"],
        NEW: ["5", "0"],
    }


def test_a_truncate_takes_what_its_part_held_before(spark: SparkSession, rows: DataFrame) -> None:
    came = deltas(spark, ("live", SENT, (2, 0)), ("archived", SENT, (0, 1)))
    live = read(evaluation.moved(rows, came, FACT, {"live"}))
    assert live == {SENT: ["2", "5"], FAILED: ["0", "-2"]}
    both = read(evaluation.moved(rows, came, FACT, {"live", "archived"}))
    assert both == {SENT: ["2", "1"], FAILED: ["0", "0"]}


def test_a_truncate_of_one_of_several_tables_of_a_measure_is_not_guessed(
    spark: SparkSession,
) -> None:
    fact = replace(orders(), measures=orders().measures[:4])
    none = spark.createDataFrame([], GROUP)
    came = spark.createDataFrame([], DELTAS)
    with pytest.raises(AuditIncomplete, match="amount adds up other tables too") as caught:
        evaluation.moved(none, came, fact, {"archived"})
    assert caught.value.remedy == "`dbt build`, then the audit again"
    evaluation.moved(none, came, fact, {"refunds"})
    evaluation.moved(none, came, fact, {"archived", "placed"})


def judged(
    spark: SparkSession,
    counts: Sequence[tuple[str, tuple[str, ...], int]],
    purged: int = 0,
    uncertain: Sequence[str] = (),
    limit: int = 50,
) -> Comparison:
    forward = groups(spark, {SENT: (3, 4), FAILED: (0, 0), NEW: (1, 0)})
    found = spark.createDataFrame(
        [
            (part, list(group), rows, ["0", str(rows)][:: -1 if part == "live" else 1], None)
            for part, group, rows in counts
        ],
        COUNTS,
    )
    gone = groups(spark, {SENT: (0, purged)})
    return evaluation.compare_fact(forward, found, gone, uncertain, FACT, limit)


FEWER = [("live", SENT, 3), ("live", NEW, 1), ("archived", SENT, 2)]


@pytest.mark.parametrize(
    ("purged", "uncertain", "counted"),
    [
        # Purged rows stay counted, and nothing else does.
        *((2, (), None), (1, (), "3"), (3, (), "5")),
        # Where not all of them are known a count may be above.
        *((1, ("archived_count",), None), (3, ("archived_count",), "5")),
    ],
)
def test_only_rows_that_were_purged_may_be_missing(
    spark: SparkSession, purged: int, uncertain: tuple[str, ...], counted: str | None
) -> None:
    found = judged(spark, FEWER, purged, uncertain)
    wrong = [Difference(named(SENT), "archived_count", "4", counted)] if counted else []
    assert found.differences == wrong


def test_where_not_all_purged_rows_are_known_a_sum_is_not_compared(spark: SparkSession) -> None:
    fact = orders()
    group = ("east", "1", "", "", "true", "2026-11-22", "2026-11-01")
    both = spark.createDataFrame(
        [(list(group), ["1", "1", "5", "2"], ["2", "0", "9", "2.01"])],
        "dimensions array<string>, left array<string>, right array<string>",
    )
    found = evaluation.differences(both, fact, ["archived_count", "amount"]).collect()
    assert {row["measure"] for row in found} == {"placed_count", "refunded"}
    assert len(evaluation.differences(both, fact, []).collect()) == 4


def test_what_cannot_be_counted_is_no_difference_but_is_told(spark: SparkSession) -> None:
    counts = spark.createDataFrame(
        [
            ("live", list(SENT), 3, ["3", "0"], None),
            ("live", list(NEW), 5, ["5", "0"], "too long"),
            ("live", list(FAILED), 2, ["2", "0"], "too long"),
        ],
        COUNTS,
    ).withColumn("fact", sql.lit(FACT.name))
    forward = groups(spark, {SENT: (3, 0)})
    none = spark.createDataFrame([], GROUP)
    assert evaluation.compare_fact(forward, counts, none, (), FACT, 5).difference_count == 0
    other = replace(FACT, name="ft_other")
    assert evaluation.left_out(counts, [FACT, other]) == {
        FACT.name: [LeftOut("public.notifications", "too long", 7)],
        "ft_other": [],
    }


def test_the_largest_differences_are_listed_and_all_are_counted(spark: SparkSession) -> None:
    found = judged(spark, [("live", SENT, 1), ("live", OTHER, 9), ("archived", SENT, 4)], limit=2)
    assert len(found.corrections) == 3
    assert replace(found, corrections=()) == Comparison(
        4,
        {"live_count": Total("4", "10"), "archived_count": Total("4", "4")},
        3,
        [
            Difference(named(OTHER), "live_count", "0", "9"),
            Difference(named(SENT), "live_count", "3", "1"),
        ],
    )
    assert [each.difference for each in found.differences] == ["-9", "2"]


def identified(oid: int) -> TableIdentities:
    return {"public.notifications": {"table_oid": oid, "named_xid": 1, "column_numbers": {}}}


STORED = Built(
    FACT,
    100,
    10,
    20,
    Snapshot("", ""),
    [],
    "",
    identified(1),
    Rejected(0, None),
    {},
)


def test_a_fact_of_other_tables_or_of_a_lost_future_is_refused() -> None:
    refuse(STORED, 100, identified(1))
    with pytest.raises(SourceBehind, match="before the position 0/64 of analytics"):
        refuse(STORED, 99, identified(1))
    with pytest.raises(TableReplaced, match=r"public\.notifications is now another table"):
        refuse(STORED, 100, identified(2))


def test_what_explains_differences_is_noted() -> None:
    assert notes(STORED, Rejected(0, None)) == []
    [unseeded] = notes(replace(STORED, baseline_lsn=None), Rejected(0, None))
    assert "no baseline" in unseeded and "spark/seed.py --fact ft_service_stats" in unseeded
    [rejected] = notes(STORED, Rejected(2, 255))
    assert "2 changes could not be counted, the first at 0/FF" in rejected


def test_only_rows_that_went_with_a_partition_are_not_known() -> None:
    assert why_unseen(STORED) == {}
    dropped = replace(STORED, emptied={"public.notification_history": 21})
    assert "was dropped or truncated before 0/15" in why_unseen(dropped)["archived_count"]
    assert why_unseen(replace(dropped, baseline_lsn=21)) == {}
    assert why_unseen(replace(STORED, emptied={"public.notifications": 21})) == {}


REPORT = FactReport(
    "ft_service_stats",
    "analytics.ft_service_stats",
    16,
    7,
    Comparison(
        5,
        {"live_count": Total("1010", "9"), "archived_count": Total("0", "0")},
        3,
        [Difference(named(("s", "t", "sms", "[bold]x")), "live_count", "1002", "1")],
    ),
    {"archived_count": "3"},
    {"archived_count": "the log is pruned"},
    Rejected(1, 20),
    [LeftOut("public.x", "too long", 4000)],
    ["why"],
    False,
)


def lines(report: FactReport, width: int = 200) -> list[str]:
    out = io.StringIO()
    whole = Report("slot", 255, [report], {}, 2)
    printer = Console(file=out, width=200, markup=False)
    for line in whole.lines(width):
        printer.print(line, soft_wrap=isinstance(line, str))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_the_report_is_readable_and_takes_no_value_for_markup() -> None:
    said = lines(REPORT)
    assert "s t sms [bold]x live_count 1,002 1 +1,001" in said
    assert "and 2 differences that are not larger; --limit shows more" in said
    assert "Note: why" in said
    assert "Left out: 4,000 rows of public.x: too long" in said
    assert "live_count 1,010 9 +1,001" in said
    assert said[-2:] == [
        "3 differences in 5 groups of analytics.ft_service_stats, read at 0/10, and the tables at"
        " 0/FF, 7 changes later",
        "2.0 s",
    ]


EVIL = "a\ncounted  forged\x1b]0;title\x07\x9b31m\u202egpj\u2028b"


def test_a_value_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Difference({EVIL: EVIL}, EVIL, "2", "1")
    compared = replace(REPORT.comparison, totals={EVIL: Total("2", "1")}, differences=[wrong])
    left_out = [LeftOut(EVIL, EVIL, 3)]
    report = replace(REPORT, comparison=compared, left_out=left_out, notes=[EVIL], relation=EVIL)
    show(Report("slot", 255, [report], {}, 2), 30)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if escaped(line) != line] == []
    assert not any(line.startswith("counted  forged") for line in said.splitlines())
    assert said.count(escaped(EVIL)) >= 7


def test_a_sum_is_shown_with_its_decimals() -> None:
    wrong = Difference({"day": None}, "amount", "-1234567.10", "1.105")
    assert wrong.difference == "-1234568.205"
    said = lines(replace(REPORT, comparison=replace(REPORT.comparison, differences=[wrong])))
    assert "null amount -1,234,567.10 1.105 -1,234,568.205" in said


def test_a_report_without_differences_says_what_it_cannot_see() -> None:
    equal = replace(
        REPORT, comparison=replace(REPORT.comparison, difference_count=0, differences=[])
    )
    [unseen] = [line for line in lines(equal) if "the log is pruned" in line]
    assert unseen.startswith("archived_count may be too high without being listed")
    assert any("4,000 rows of public.x" in line for line in lines(equal))
    assert (
        "3 of archived_count is of rows that were purged: the tables lack them, and they were"
        " written down"
    ) in lines(replace(equal, unseen={}))


def test_the_remedy_is_the_one_that_mends() -> None:
    seed = "`spark-submit spark/seed.py --fact ft_service_stats"
    assert REPORT.remedy() == f"{seed}`, then `dbt build`"
    rebuild = "`dbt build --full-refresh`; if the audit differs after that, "
    assert replace(REPORT, is_whole=True).remedy() == rebuild + REPORT.remedy()
