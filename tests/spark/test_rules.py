"""The delta rules on Spark, against the cases and the oracle of the dbt models."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import Any

import jinja2
import psycopg
import pytest
import yaml
from deltas import rules
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from demo.cluster import Cluster
from loader.capture import wal2json
from tests.oracle import Outcome, Transaction, outcome
from tests.properties.histories import changes, payload
from tests.spark.support import ROOT
from waltally import lsn
from waltally.tables import DIMENSIONS

LIVE, ARCHIVE = "public.notifications", "public.notification_history"
TABLES = {"live": LIVE, "archived": ARCHIVE}
MODELS = ROOT / "dbt_project/models"
ABOUT_SQL = {
    # The image is cut out of the text there; here the whole text is parsed.
    "what_is_around_the_array_is_no_part_of_the_image",
}
SCHEMA = "commit_lsn long, ordinal long, action string, payload string"

Raw = tuple[int, int, str | None, str]


def frame(spark: SparkSession, rows: list[Raw]) -> DataFrame:
    return spark.createDataFrame(rows, SCHEMA).repartition(2)


@dataclass
class Case:
    """A unit test of int_service_deltas: its changes as the log has them, and what it expects."""

    name: str
    changes: list[Raw]
    expected: list[dict[str, Any]]

    @property
    def truncates(self) -> bool:
        return any('"action":"T"' in text for *_, text in self.changes)


def cases(connection: psycopg.Connection[Any]) -> list[Case]:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)
    environment.globals["tojson"] = json.dumps
    files = sorted((ROOT / "dbt_project/macros/unit_tests").glob("*.sql"))
    macros = environment.from_string("".join(file.read_text() for file in files))
    environment.globals |= {file.stem: getattr(macros.module, file.stem) for file in files}
    found = []
    for file in sorted((MODELS / "intermediate").glob("int_service_deltas_*.yml")):
        for test in yaml.safe_load(file.read_text())["unit_tests"]:
            if test["name"] in ABOUT_SQL:
                continue
            (given_changes,) = (
                each["rows"] for each in test["given"] if each["input"] == "ref('stg_changes')"
            )
            query = environment.from_string(
                given_changes.replace("{% raw %}", "").replace("{% endraw %}", "")
            ).render()
            rows = connection.execute(
                "select commit_lsn::text, ordinal, is_json, is_undecodable, action, source_table,"
                f" part, new_image, old_image from ({query}) as staged"
            ).fetchall()
            raw = [as_logged(number, *row) for number, row in enumerate(rows, 1)]
            # How many rows belong to no group is nothing that Spark asks the log.
            expected = [row for row in test["expect"]["rows"] if not row.get("left_out")]
            found.append(Case(test["name"], raw, expected))
    return found


def as_logged(
    number: int,
    commit_lsn: str,
    ordinal: int,
    is_json: bool,
    is_undecodable: bool,
    action: str | None,
    table: str | None,
    part: str | None,
    new: str | None,
    old: str | None,
) -> Raw:
    """The change that stg_changes would have read so, as the plugin prints it."""
    fields = [] if action is None else [f'"action":"{action}"']
    name = TABLES.get(part or "", table)
    if name is not None:
        schema, _, plain = name.partition(".")
        fields += [f'"schema":"{schema}"', f'"table":"{plain}"']
    fields += [f'"columns":{new}'] if new else []
    fields += [f'"identity":{old}'] if old else []
    fields += ['"undecodable":{"encoding":"WIN1252","bytes":"81"}'] if is_undecodable else []
    text = "{" + ",".join(fields) + "}" if is_json else "{"
    return lsn.parse(commit_lsn), ordinal if ordinal > 1 else number, letter(text), text


def letter(text: str) -> str | None:
    return wal2json.action(text.encode()).decode() or None


def says(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    known = ("part", "sign", "rejected_reason", *DIMENSIONS)
    return all(
        actual.get(key) == value
        for key, value in expected.items()
        if key in known and not (key == "part" and "part" not in actual)
    )


def must_match(name: str, expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> None:
    left = list(actual)
    for row in expected:
        for _ in range(row.get("change_count", 1)):
            match = next((each for each in left if says(row, each)), None)
            assert match is not None, f"{name}: {row} is not in {left}"
            left.remove(match)
    assert not left, name


@pytest.fixture(scope="module")
def dbt_cases(cluster: Cluster) -> list[Case]:
    with psycopg.connect(cluster.dsn()) as connection:
        return cases(connection)


@pytest.mark.parametrize("with_letters", [True, False])
def test_the_cases_of_the_models_without_a_truncate(
    spark: SparkSession, dbt_cases: list[Case], with_letters: bool
) -> None:
    tried = [case for case in dbt_cases if not case.truncates]
    assert len(tried) > 35
    rows = [
        (place, ordinal, action if with_letters else None, text)
        for place, case in enumerate(tried)
        for ordinal, (_, _, action, text) in enumerate(case.changes, 1)
    ]
    log = frame(spark, rows)
    found: dict[int, list[dict[str, Any]]] = {place: [] for place in range(len(tried))}
    for image in rules.images(log, LIVE, ARCHIVE).collect():
        # Both images of an update are here; what nets to nothing was left out before.
        found[image["commit_lsn"]].append({**image.asDict(), "rejected_reason": None})
    for change in rules.rejected_changes(log, LIVE, ARCHIVE).collect():
        said = {"sign": None, "rejected_reason": change["reason"]}
        found[change["commit_lsn"]].append(said)
    for place, case in enumerate(tried):
        must_match(case.name, case.expected, found[place])


def test_the_cases_of_the_models_with_a_truncate(
    spark: SparkSession, dbt_cases: list[Case]
) -> None:
    tried = [case for case in dbt_cases if case.truncates]
    assert len(tried) == 2
    for case in tried:
        log = frame(spark, case.changes)
        found = [
            {**row.asDict(), "sign": row["delta"]}
            for row in rules.signed_deltas(log, LIVE, ARCHIVE).collect()
        ]
        found += [
            {"part": row["part"], "sign": None}
            for row in rules.last_truncates(log, LIVE, ARCHIVE).collect()
        ]
        wanted = [
            {"sign": 1, **row} if row["action"] != "T" else {"part": row["part"], "sign": None}
            for row in case.expected
        ]
        must_match(case.name, wanted, found)


def test_the_last_truncate_of_each_part_counts(spark: SparkSession) -> None:
    (test,) = yaml.safe_load((MODELS / "staging/stg_truncates.yml").read_text())["unit_tests"]
    rows = [
        (lsn.parse(row["commit_lsn"]), row["ordinal"], row["action"], row["payload"])
        for row in test["given"][0]["rows"]
    ]
    found = rules.last_truncates(frame(spark, rows), LIVE, ARCHIVE).collect()
    wanted = [
        (row["part"], lsn.parse(row["commit_lsn"]), row["ordinal"])
        for row in test["expect"]["rows"]
    ]
    assert [tuple(row) for row in found] == wanted


IMAGE = (
    '[{"name":"service_id","value":"11111111-1111-1111-1111-111111111111"},'
    '{"name":"template_id","value":"22222222-2222-2222-2222-222222222222"},'
    '{"name":"notification_type","value":"email"},{"name":"notification_status","value":%s}%s]'
)
INSERT = '{"action":"I","schema":"public","table":"notifications","columns":' + IMAGE + "}"


VALUES = [
    (r'"\u0041\n\"\\é"', "", 'A\n"\\é'),
    ("true", "", "true"),
    ("70", "", "70"),
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
    found = rules.signed_deltas(spark.createDataFrame(rows, SCHEMA), LIVE, ARCHIVE).collect()
    wanted = {read: 2 for *_, read in VALUES}
    assert {row["notification_status"]: row["delta"] for row in found} == wanted


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
    found = rules.rejected_changes(log, LIVE, ARCHIVE).orderBy("commit_lsn").collect()
    assert [(row["commit_lsn"], row["reason"]) for row in found] == [
        (number, "the payload is not valid JSON") for number in range(len(texts))
    ]


DELETE = '{"action":"D","schema":"public","table":"notification_history","identity":' + IMAGE + "}"


def test_deletes_of_the_archive_say_which_group_lost_a_row(spark: SparkSession) -> None:
    counted = DELETE % ('"sent"', "")
    known = [counted, counted.replace('"D"', ' "D"')]
    nothing = [
        DELETE % ("null", ""),
        # These never counted, so nothing keeps them.
        DELETE % (f'"{"x" * 1001}"', ""),
        counted.replace("11111111-", "x"),
        counted.replace("notification_history", "notifications"),
        counted.replace("notification_history", "another"),
        INSERT % ('"sent"', ""),
        (INSERT % ('"sent"', "")).replace("notifications", "notification_history"),
        '{"action":"T","schema":"public","table":"notification_history"}',
        '{"action":"C"}',
    ]
    unknown = [
        DELETE.replace("notification_status", "other") % ('"sent"', ""),
        '{"action":"D","schema":"public","table":"notification_history"}',
        counted[:-1],
        counted.replace('"schema":"public",', ""),
        "\\x81",
    ]
    rows = [(n, 1, letter(text), text) for n, text in enumerate([*known, *nothing, *unknown])]
    found = {
        row["commit_lsn"]: (row["is_known"], row["notification_status"])
        for row in rules.archived_deletes(frame(spark, rows), LIVE, ARCHIVE).collect()
    }
    assert found == {
        **dict.fromkeys(range(len(known)), (True, "sent")),
        **{len(known) + len(nothing) + n: (False, None) for n in range(len(unknown))},
    }


SLOW = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
LONG: st.SearchStrategy[list[Transaction]] = st.lists(
    st.lists(changes(), min_size=1, max_size=4), min_size=60, max_size=120
)


@SLOW
@given(history=LONG)
def test_any_history_comes_to_what_the_oracle_of_the_models_says(
    spark: SparkSession, history: list[Transaction]
) -> None:
    rows: list[Raw] = []
    for number, transaction in enumerate(history):
        for ordinal, change in enumerate(transaction, 1):
            text = payload(change)
            if (number + ordinal) % 2 and not isinstance(change, str):
                text = json.dumps(change, separators=(",", ":"))
            rows.append((number, ordinal, letter(text), text))
    log = frame(spark, rows)
    found = Outcome()
    for row in rules.signed_deltas(log, LIVE, ARCHIVE).collect():
        getattr(found, row["part"])[tuple(row[name] for name in DIMENSIONS)] = row["delta"]
    rejected = rules.rejected_changes(log, LIVE, ARCHIVE).collect()
    found.rejected = sorted(map(operator.itemgetter(0, 1), rejected))
    assert found == outcome(history)
