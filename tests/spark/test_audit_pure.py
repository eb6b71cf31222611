"""How the audit judges: small frames in, differences out, and what is printed of them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from counting.counts import NO_NUMBER
from rich.console import Console
from rules.tallies import Rejected
from waltally_jobs.auditing import evaluation
from waltally_jobs.auditing.job import refuse, show, why_unseen
from waltally_jobs.auditing.report import (
    Comparison,
    Difference,
    FactReport,
    LeftOut,
    NotFinite,
    Report,
    Total,
)
from waltally_jobs.common import sums
from waltally_jobs.common.arrow import Snapshot
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.warehouse.fact import Built

from loader.source.table_identity import TableIdentities
from testkit.facts import NOTIFY, column, count, notify, summed, table
from testkit.hostile import FORGED
from waltally.errors import SourceBehind, TableReplaced
from waltally.escapes import escaped
from waltally.facts import Fact, parse
from waltally.tables import Table

FACT = notify()
NAMES = ("service_id", "template_id", "notification_type", "notification_status")

ORDERS = parse(
    "ft_orders",
    Table("analytics", "ft_orders"),
    {
        **NOTIFY,
        "tables": [
            table("placed", "public", "orders"),
            table("archived", "public", "old_orders", "ignore"),
            table("refunds", "public", "refunds"),
        ],
        "dimensions": [column("channel", "text")],
        "measures": [
            count("placed_count", "placed"),
            count("archived_count", "archived"),
            {**summed("amount", "amount"), "of": ["placed", "archived"]},
            {**summed("refunded", "refunded"), "of": ["refunds"]},
        ],
    },
)

SENT, FAILED, NEW = (("s", "t", "sms", status) for status in ("sent", "failed", "new"))
OTHER = ("other", "t", "sms", "sent")


def groups(found: Mapping[Any, Sequence[Any]], fact: Fact = FACT) -> list[pa.Table]:
    return [sums.groups_of(found, fact)]


def named(group: tuple[str, ...]) -> dict[str, str | None]:
    return dict(zip(NAMES, group, strict=True))


def compared(
    forward: Sequence[pa.Table],
    counted: Sequence[pa.Table],
    uncertain: Sequence[str] = (),
    fact: Fact = FACT,
) -> Comparison:
    comparing = evaluation.Comparing(fact, "slot", uncertain, 2)
    comparing.add(forward, counted)
    return comparing.result()


def test_a_truncate_takes_what_its_part_held_before() -> None:
    rows = groups({SENT: (3, 4), FAILED: (1, -2)})
    for truncated, kept in (
        ((), {SENT: (3, 4), FAILED: (1, -2)}),
        (("live",), {SENT: (0, 4), FAILED: (0, -2)}),
        (("live", "archived"), {SENT: (0, 0), FAILED: (0, 0)}),
    ):
        found = evaluation.without_truncated(rows, FACT, set(truncated))
        assert compared(found, groups(kept)).difference_count == 0


def test_a_truncate_of_one_of_several_tables_of_a_measure_is_not_guessed() -> None:
    with pytest.raises(AuditIncomplete, match="amount adds up other tables too") as caught:
        evaluation.without_truncated([], ORDERS, {"archived"})
    assert caught.value.remedy == "`dbt build`, then the audit again"
    evaluation.without_truncated([], ORDERS, {"refunds"})
    evaluation.without_truncated([], ORDERS, {"archived", "placed"})


GONE: dict[tuple[str, ...], tuple[int, int]] = {FAILED: (0, 1), SENT: (0, 2), NEW: (0, 3)}
"""Of each group the fact counts two archived rows that are not there."""


def test_only_rows_that_were_purged_may_be_missing_and_the_largest_differences_come_first() -> None:
    counted = groups(dict.fromkeys(GONE, (0, 2))) + groups({OTHER: (9, 0)}) + groups(GONE)
    forward = groups(dict.fromkeys(GONE, (0, 4)))
    found = compared(forward, counted)
    wrong = [
        Difference(named(OTHER), "live_count", "0", "9"),
        Difference(named(FAILED), "archived_count", "4", "3"),
        Difference(named(NEW), "archived_count", "4", "5"),
    ]
    totals = {"live_count": Total("0", "9"), "archived_count": Total("12", "12")}
    assert found == Comparison(4, totals, 3, wrong[:2], wrong)
    assert [each.difference for each in wrong] == ["-9", "1", "-1"]
    # Where not all of the purged rows are known a count may be above.
    some = compared(forward, counted, ["archived_count"])
    assert some.differences == [wrong[0], wrong[2]]


def test_what_cannot_be_counted_is_told() -> None:
    live, _ = FACT.tables
    found = [(5, "too long", "{}"), (2, "too long", None), (4, NO_NUMBER, "size")]
    assert evaluation.uncounted((live, each) for each in [*found, found[2]]) == (
        [LeftOut("public.notifications", "too long", 7)],
        [NotFinite("public.notifications", "size", 8)],
    )


def test_where_not_all_purged_rows_are_known_a_sum_is_not_compared() -> None:
    left, right = ((1, 1, 5, 2), (2, 0, 9, Decimal("2.01")))
    forward, counted = (groups({("web",): side}, ORDERS) for side in (left, right))
    found = compared(forward, counted, ["archived_count", "amount"], ORDERS)
    assert {each.measure for each in found.corrections} == {"placed_count", "refunded"}


def identified(oid: int) -> TableIdentities:
    return {
        "public.notifications": {
            "table_oid": oid,
            "named_xid": 1,
            "column_numbers": {},
            "labels": {},
        }
    }


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
)


def test_a_fact_of_other_tables_or_of_a_lost_future_is_refused() -> None:
    refuse(STORED, 100, identified(1))
    with pytest.raises(SourceBehind, match="before the position 0/64 of analytics"):
        refuse(STORED, 99, identified(1))
    with pytest.raises(TableReplaced, match=r"public\.notifications is now another table"):
        refuse(STORED, 100, identified(2))


def test_only_rows_that_went_with_a_partition_are_not_known() -> None:
    assert why_unseen(STORED, {}) == {}
    dropped = {"public.notification_history": 21}
    assert "was dropped or truncated before 0/15" in why_unseen(STORED, dropped)["archived_count"]
    assert why_unseen(replace(STORED, baseline_lsn=21), dropped) == {}
    assert why_unseen(STORED, {"public.notifications": 21}) == {}


REPORT = FactReport(
    "ft_service_stats",
    "analytics.ft_service_stats",
    16,
    7,
    Comparison(
        5,
        {"live_count": Total("1010", "9"), "archived_count": Total("0", "0")},
        3,
        [Difference(named(("s", "t", "sms", "[bold]x")), "live_count", "1002.50", "1")],
    ),
    {"archived_count": "3"},
    {"archived_count": "the log is pruned"},
    Rejected(1, 20),
    [LeftOut("public.x", "too long", 4000)],
    [NotFinite("public.x", "size", 1)],
    ["why"],
    False,
)


def test_the_report_is_readable_and_takes_no_value_for_markup() -> None:
    out = io.StringIO()
    printer = Console(file=out, width=200, markup=False)
    for line in Report("slot", 255, [REPORT], {}, 2).lines(200):
        printer.print(line, soft_wrap=isinstance(line, str))
    said = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "s t sms [bold]x live_count 1,002.50 1 +1,001.5" in said
    assert "and 2 differences that are not larger; --limit shows more" in said
    assert "Note: why" in said
    assert "Left out: 4,000 rows of public.x: too long" in said
    assert "Note: 1 value is NaN or infinite, so null, in size of public.x" in said
    assert "live_count 1,010 9 +1,001" in said
    assert any(line.startswith("archived_count may be too high without being") for line in said)
    assert said[-2:] == [
        "3 differences in 5 groups of analytics.ft_service_stats, read at 0/10, and the tables at"
        " 0/FF, 7 changes later",
        "2.0 s",
    ]


def test_a_value_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Difference({FORGED: FORGED}, FORGED, "2", "1")
    compared = replace(REPORT.comparison, totals={FORGED: Total("2", "1")}, differences=[wrong])
    left_out, no_numbers = [LeftOut(FORGED, FORGED, 3)], [NotFinite(FORGED, FORGED, 3)]
    report = replace(REPORT, comparison=compared, left_out=left_out, not_finite=no_numbers)
    report = replace(report, notes=[FORGED], relation=FORGED)
    show(Report("slot", 255, [report], {}, 2), 30)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if escaped(line) != line] == []
    assert not any(line.startswith("ft_service_stats  ") for line in said.splitlines())
    assert said.count(escaped(FORGED)) >= 9
