"""The delta rules on Spark, against the cases and the oracle of the dbt models."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
import yaml
from deltas.rules import FactChanges
from pyspark.sql import DataFrame, SparkSession

from loader.capture import wal2json
from testkit.commands import ROOT, profiles, run_dbt
from testkit.facts import SLOT, notify
from testkit.servers import Cluster, connect
from waltally import lsn
from waltally.database import Connection
from waltally.facts import Fact, parse
from waltally.tables import Table

FACT = notify()
PROJECT = ROOT / "dbt_project/integration_tests"
SCHEMA = "commit_lsn long, ordinal long, action string, payload string"

Raw = tuple[int, int, str | None, str]


def frame(spark: SparkSession, rows: list[Raw]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA).repartition(2)


@dataclass
class Case:
    """A unit test of the dbt package: its declaration, the changes of its log, what it expects."""

    name: str
    fact: Fact
    changes: list[Raw]
    expected: list[dict[str, Any]]

    @property
    def truncates(self) -> bool:
        return any('"T"' in text for *_, text in self.changes)


def declared(home: Path) -> dict[str, Fact]:
    """By model, what the cases declare, as dbt has parsed it."""
    project = home / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("dbt_packages", "target"))
    # As `dbt deps` does for a local package.
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "waltally").symlink_to(ROOT)
    done = run_dbt(("parse", "--project-dir", str(project)), {**os.environ, **profiles(home)})
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = json.loads((home / "target/manifest.json").read_text())["nodes"].values()
    found = {
        node["name"]: node["config"]["meta"]["waltally_rules"]
        for node in nodes
        if "waltally_rules" in node["config"].get("meta", {})
    }
    return {name: parse(name, Table("rules", name), each) for name, each in found.items()}


def cases(connection: Connection, facts: dict[str, Fact]) -> list[Case]:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)
    environment.globals["tojson"] = json.dumps
    environment.globals["waltally"] = SimpleNamespace(get_slot_name=lambda: SLOT)
    files = sorted((PROJECT / "macros").glob("make_*.sql"))
    macros = environment.from_string("".join(file.read_text() for file in files))
    environment.globals |= {file.stem: getattr(macros.module, file.stem) for file in files}
    found = []
    for file in sorted((PROJECT / "models").rglob("*.yml")):
        for test in (yaml.safe_load(file.read_text()) or {}).get("unit_tests", ()):
            if test["model"] not in facts:
                continue
            (given_changes,) = (each["rows"] for each in test["given"])
            query = environment.from_string(
                given_changes.replace("{% raw %}", "").replace("{% endraw %}", "")
            ).render()
            rows = connection.ask(
                f"select commit_lsn::text, ordinal, action::text, payload from ({query}) as staged"
            )
            raw = [(lsn.parse(at), ordinal, action, text) for at, ordinal, action, text in rows]
            # How many rows belong to no group is nothing that Spark asks the log.
            expected = [row for row in test["expect"]["rows"] if not row.get("left_out")]
            found.append(Case(test["name"], facts[test["model"]], raw, expected))
    return found


def letter(text: str) -> str | None:
    return wal2json.action(text.encode()).decode() or None


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


def says(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    if expected.get("rejected_reason") != actual["rejected_reason"]:
        return False
    if expected.get("is_ignored", False) != actual.get("is_ignored", False):
        return False
    compared = expected.keys() & actual.keys() - {"is_ignored"}
    return all(is_same(expected[key], actual[key]) for key in compared)


def is_same(expected: Any, actual: Any) -> bool:
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, bool):
        return bool(str(expected).lower() == actual)
    if isinstance(expected, int | float):
        return Decimal(str(expected)) == Decimal(actual)
    return str(expected) == str(actual)


def must_match(name: str, expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> None:
    left = list(actual)
    for row in expected:
        for _ in range(row.get("change_count", 1)):
            match = next((each for each in left if says(row, each)), None)
            assert match is not None, f"{name}: {row} is not in {left}"
            left.remove(match)
    assert not left, name


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
