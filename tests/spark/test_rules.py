"""The delta rules on Spark, against the cases and the oracle of the dbt models."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from deltas.rules import FactChanges
from pyspark.sql import DataFrame, SparkSession

from testkit.facts import SLOT, notify
from testkit.servers import Cluster, connect
from tests.properties.rule_cases import Case, Raw, cases, declared, letter, must_match
from waltally.facts import Fact

FACT = notify()
SCHEMA = "commit_lsn long, ordinal long, action string, payload string"


def frame(spark: SparkSession, rows: list[Raw]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA).repartition(2)


def outcome_of(
    log: DataFrame, fact: Fact, may_truncate: bool = True
) -> list[tuple[int, dict[str, Any]]]:
    """Each image, rejection and last TRUNCATE as a case says it, with its commit's position."""
    found = []
    changes = FactChanges(log, fact, SLOT, may_truncate=may_truncate)
    changes.classified.persist()  # Else each question plans and computes all of it again.
    for image in changes.images().collect():
        row = {key: image[key] for key in ("part", "sign", "is_ignored")}
        row["rejected_reason"] = None
        names = [each.name for each in fact.dimensions]
        row |= dict(zip(names, image["dimensions"], strict=True))
        for measure, amount in zip(fact.measures, image["sums"], strict=True):
            row[f"adds_{measure.name}"] = amount
            if len(measure.columns) == 1 and not measure.where and image["part"] in measure.of:
                row[f"sum_of_{measure.columns[0]}"] = amount
        found.append((image["commit_lsn"], row))
    for change in changes.rejected.collect():
        row = {"sign": None, "rejected_reason": change["reason"]}
        found.append((change["commit_lsn"], row))
    for part, (commit_lsn, _) in changes.truncates.items():
        found.append((commit_lsn, {"part": part, "sign": None, "rejected_reason": None}))
    return found


@pytest.fixture(scope="module")
def dbt_cases(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    facts = declared(tmp_path_factory.mktemp("rules"))
    with closing(connect(cluster.dsn())) as connection:
        return cases(connection, facts)


def test_the_cases_of_the_models_without_a_truncate(
    spark: SparkSession, dbt_cases: list[Case]
) -> None:
    """Each with the letters of its actions and without them, at commits of its own."""
    tried = [case for case in dbt_cases if not case.truncates]
    assert len(tried) > 30
    for fact in {case.fact.name: case.fact for case in tried}.values():
        own = 2 * [case for case in tried if case.fact is fact]
        rows = [
            (place, ordinal, action if 2 * place < len(own) else None, text)
            for place, case in enumerate(own)
            for ordinal, (_, _, action, text) in enumerate(case.changes, 1)
        ]
        found: dict[int, list[dict[str, Any]]] = {place: [] for place in range(len(own))}
        for place, row in outcome_of(frame(spark, rows), fact, may_truncate=False):
            found[place].append(row)
        for place, case in enumerate(own):
            must_match(case.name, case.expected, found[place])


def test_the_cases_of_the_models_with_a_truncate(
    spark: SparkSession, dbt_cases: list[Case]
) -> None:
    tried = [case for case in dbt_cases if case.truncates]
    assert len(tried) >= 2
    for case in tried:
        found = [row for _, row in outcome_of(frame(spark, case.changes), case.fact)]
        must_match(case.name, case.expected, found)


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
    assert letter(texts[-1]) == "I"
    rows = [(place, 1, letter(text), text) for place, text in enumerate(texts)]
    # The large one takes seconds.
    rows += [(place, 2, None, text) for place, text in enumerate(texts[:-1])]
    found = FactChanges(spark.createDataFrame(rows, SCHEMA), FACT, SLOT).deltas().collect()
    wanted = {read: 2 for *_, read in VALUES[:-1]} | {"large": 1}
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
    found = FactChanges(log, FACT, SLOT).rejected.orderBy("commit_lsn").collect()
    assert [(row["commit_lsn"], row["reason"]) for row in found] == [
        (number, "the payload is not valid JSON") for number in range(len(texts))
    ]
