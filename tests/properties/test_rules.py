"""The delta rules in Python, against the cases of the dbt models and the database."""

from __future__ import annotations

import os
from contextlib import closing
from random import Random
from typing import Any

import pytest
from rules import messages
from rules.judging import PartRules
from rules.tallies import Counting, Row

from testkit.facts import SLOT, notify
from testkit.servers import Cluster, connect
from tests.dbt.project import shared_project
from tests.properties.conftest import FACTS
from tests.properties.counted import as_rows, counted, truncates
from tests.properties.declared import random_history
from tests.properties.rule_cases import Case, Raw, cases, declared, letter, must_match
from waltally.facts import Fact

HISTORIES = 1_000 if "WALTALLY_ALL_CASES" in os.environ else 30


def outcome_of(changes: list[Raw], fact: Fact) -> list[dict[str, Any]]:
    """Each image, rejection and last TRUNCATE as a case says it."""
    found: list[dict[str, Any]] = []
    names = [each.name for each in fact.dimensions]
    last = truncates(fact, changes)
    for table in last:
        for part in fact.tables:
            if part.table == table:
                found.append({"part": part.name, "sign": None, "rejected_reason": None})
    for position, ordinal, action, payload in changes:
        for part in fact.tables:
            rules = PartRules(fact, part, SLOT)
            read = messages.reader({part.table: [part.column(each) for each in rules.columns]})
            change = read(action, payload)
            if change is None or (change.table is None and part is not fact.tables[0]):
                continue
            verdict = rules.judge(change)
            if verdict.reason is not None:
                found.append({"sign": None, "rejected_reason": verdict.reason})
            if part.table in last and (position, ordinal) <= last[part.table]:
                continue
            for sign, image in verdict.signed:
                if not image.has:
                    continue
                row = {"part": part.name, "sign": sign, "is_ignored": verdict.is_ignored}
                row |= dict(zip(names, image.group, strict=True), rejected_reason=None)
                for measure, amount in zip(fact.measures, image.adds, strict=True):
                    row[f"adds_{measure.name}"] = str(amount)
                    if len(measure.columns) == 1 and not measure.where and part.name in measure.of:
                        row[f"sum_of_{measure.columns[0]}"] = str(amount)
                found.append(row)
    return found


@pytest.fixture(scope="module")
def dbt_cases(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    facts = declared(tmp_path_factory.mktemp("rules"))
    with closing(connect(cluster.dsn())) as connection:
        return cases(connection, facts)


@pytest.mark.parametrize("has_letters", [True, False])
def test_the_cases_of_the_models(dbt_cases: list[Case], has_letters: bool) -> None:
    """With the actions that the loader has noted, and without them."""
    assert len(dbt_cases) > 25
    for case in dbt_cases:
        changes = [
            (at, ordinal, action if has_letters else None, text)
            for at, ordinal, action, text in case.changes
        ]
        must_match(case.name, case.expected, outcome_of(changes, case.fact))


@pytest.mark.larger
def test_one_pass_for_several_facts_gives_each_what_its_own_pass_does() -> None:
    facts = [each for each in shared_project().facts() if each.name in FACTS]
    for seed in range(HISTORIES):
        dice = Random(seed)
        rows = as_rows([each for fact in facts for each in random_history(dice, fact)])
        last = {table: at for fact in facts for table, at in truncates(fact, rows).items()}
        counting = Counting(facts, SLOT, last)
        for row in rows:
            counting.count([row])
        assert counting.finish() == [counted(fact, rows) for fact in facts], seed


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
    ("0e9", "", "0"),
    ("-0.05", "", "-0.05"),
    ('"-0.0e1"', "", "-0.0e1"),
    (r'"\"value\":7.50,"', "", '"value":7.50,'),
    ('{"b": [1.50, null], "a":"\\u00e9"}', "", '{"a": "é", "b": [1.50, null]}'),
    ('"digits"', ',{"name":"n","value":' + "9" * 5000 + "}", "digits"),
    ('"large"', ',{"name":"body","value":"' + "y" * 21_000_000 + '"}', "large"),
]


def test_values_are_read_as_the_database_reads_them(cluster: Cluster) -> None:
    texts = [INSERT % (status, more) for status, more, _ in VALUES]
    assert letter(texts[-1]) == "I"
    rows: list[Row] = [(0, 1, known, text) for text in texts for known in (letter(text), None)]
    found = {group[3]: sums[0] for (_, group), sums in counted(notify(), rows).groups.items()}
    assert found == {read: 2 for *_, read in VALUES} | {"0": 4}
    query = "select (%s::jsonb #>> '{columns,3,value}')"
    with closing(connect(cluster.dsn())) as connection:
        for text, (*_, read) in zip(texts, VALUES, strict=True):
            assert connection.ask(query, (text,)) == [(read,)]


def test_what_the_database_does_not_take_for_json_is_rejected() -> None:
    plain = INSERT % ('"x"', "")
    texts = [
        plain[:-1],
        plain + " x",
        plain.replace('"', "'"),
        plain.replace('"x"', "NaN"),
        INSERT % (r'"\u0000"', ""),
        INSERT % (r'"\ud83d"', ""),
        plain.replace("email", "e\tmail"),
        "",
    ]
    # An escaped backslash before u0000 is no escaped zero.
    fine = [plain, f" {plain}\n", INSERT % (r'"\\u0000"', ""), INSERT % (r'"\ud83d\ude00"', "")]
    for text in texts:
        tally = counted(notify(), [(7, 1, None, text)])
        assert tally.first_rejected == (7, "the payload is not valid JSON"), text
        assert not tally.groups
    assert counted(notify(), [(1, 1, None, text) for text in fine]).rejected_count == 0
