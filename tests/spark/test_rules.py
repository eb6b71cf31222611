"""The delta rules on Spark, against the cases and the oracle of the dbt models."""

from __future__ import annotations

from deltas import rules
from pyspark.sql import DataFrame, SparkSession

from loader.capture import wal2json
from testkit.commands import ROOT
from testkit.facts import SLOT, notify
from waltally import lsn

FACT = notify()
PROJECT = ROOT / "dbt_project/integration_tests"
SCHEMA = "commit_lsn long, ordinal long, action string, payload string"

Raw = tuple[int, int, str | None, str]


def frame(spark: SparkSession, rows: list[Raw]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA).repartition(2)


def letter(text: str) -> str | None:
    return wal2json.action(text.encode()).decode() or None


def test_the_last_truncate_of_each_part_counts(spark: SparkSession) -> None:
    truncate = '{"action":"T","schema":"public","table":"%s"}'
    rows: list[Raw] = [
        (lsn.parse(at), ordinal, action, truncate % table)
        for at, ordinal, action, table in (
            ("0/10", 1, "T", "notifications"),
            ("0/20", 1, "T", "notifications"),
            ("0/20", 2, None, "notifications"),
            ("0/30", 1, "T", "another"),
            ("1/0", 1, "T", "notification_history"),
            ("0/FF", 9, "T", "notification_history"),
        )
    ]
    rows.append((lsn.parse("2/0"), 1, "I", INSERT % ('"x"', "")))
    found = rules.last_truncates(frame(spark, rows), FACT).collect()
    assert {tuple(row) for row in found} == {
        ("live", lsn.parse("0/20"), 2),
        ("archived", lsn.parse("1/0"), 1),
    }


IMAGE = (
    '[{"name":"service_id","value":"11111111-1111-1111-1111-111111111111"},'
    '{"name":"template_id","value":"22222222-2222-2222-2222-222222222222"},'
    '{"name":"notification_type","value":"email"},{"name":"notification_status","value":%s}%s]'
)
INSERT = '{"action":"I","schema":"public","table":"notifications","columns":' + IMAGE + "}"


TINY = "-0.10000000000000000000000000000000000000000000000001"
VALUES = [
    (r'"\u0041\n\"\\é"', "", 'A\n"\\é'),
    ("true", "", "true"),
    ("70", "", "70"),
    ("7.50", "", "7.50"),
    (TINY, "", TINY),
    ("1e+20", "", "100000000000000000000"),
    ("-1.25e-07", "", "-0.000000125"),
    ("1.50E1", "", "15.0"),
    ("12.5e3", "", "12500"),
    ("-0", "", "0"),
    ("-0.05", "", "-0.05"),
    ('"-0.0e1"', "", "-0.0e1"),
    (r'"\"value\":7.50,"', "", '"value":7.50,'),
    # More digits and more characters than Jackson reads unless told to.
    ('"digits"', ',{"name":"n","value":' + "9" * 5000 + "}", "digits"),
    ('"large"', ',{"name":"body","value":"' + "y" * 21_000_000 + '"}', "large"),
]


def test_values_are_read_as_the_database_reads_them(spark: SparkSession) -> None:
    texts = [INSERT % (status, more) for status, more, _ in VALUES]
    rows = [
        (place, ordinal, action, text)
        for place, text in enumerate(texts)
        for ordinal, action in enumerate((None, letter(text)))
    ]
    assert rows[-1][2] == "I"
    found = rules.signed_deltas(spark.createDataFrame(rows, SCHEMA), FACT, SLOT).collect()
    wanted = {read: 2 for *_, read in VALUES}
    assert {row["dimensions"][3]: int(row["sums"][0]) for row in found} == wanted


def test_what_the_database_does_not_take_for_json_is_rejected(spark: SparkSession) -> None:
    plain = INSERT % ('"x"', "")
    texts = [
        plain[:-1],
        plain + " x",
        plain.replace('"', "'"),
        plain.replace('"x"', "NaN"),
        INSERT % (r'"\u0000"', ""),
        plain.replace("email", "e\tmail"),
        "",
    ]
    # An escaped backslash before u0000 is no escaped zero.
    fine = [plain, f" {plain}\n", INSERT % (r'"\\u0000"', "")]
    log = frame(spark, [(n, 1, None, text) for n, text in enumerate([*texts, *fine])])
    found = rules.rejected_changes(rules.classify(log, FACT, SLOT)).orderBy("commit_lsn").collect()
    assert [(row["commit_lsn"], row["reason"]) for row in found] == [
        (number, "the payload is not valid JSON") for number in range(len(texts))
    ]


DELETE = '{"action":"D","schema":"public","table":"notification_history","identity":' + IMAGE + "}"


def test_deletes_of_the_archive_say_which_group_lost_a_row(spark: SparkSession) -> None:
    counted = DELETE % ('"sent"', "")
    known = [counted, counted.replace('"D"', ' "D"')]
    others = [
        DELETE % ("null", ""),
        DELETE % (f'"{"x" * 1001}"', ""),
        counted.replace("11111111-", "x"),
        counted.replace("notification_history", "notifications"),
        counted.replace("notification_history", "another"),
        INSERT % ('"sent"', ""),
        (INSERT % ('"sent"', "")).replace("notifications", "notification_history"),
        '{"action":"C"}',
        DELETE.replace("notification_status", "other") % ('"sent"', ""),
        '{"action":"D","schema":"public","table":"notification_history"}',
        counted[:-1],
    ]
    texts = [counted, *known, *others]
    log = frame(spark, [(n, 1, letter(text), text) for n, text in enumerate(texts)])
    classified = rules.classify(log, FACT, SLOT)
    deleted = rules.archived_deletes(classified, {"archived": (0, 1)}, FACT).collect()
    assert [(row["part"], row["dimensions"][3], row["sums"]) for row in deleted] == [
        ("archived", "sent", ["0", str(len(known))])
    ]
