"""A table that is counted column by column has the groups that its rows have one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from counting.counts import NULL_DIMENSION, TableCounting
from counting.values import Value, column_name, needed, parts_of
from rules import documents, messages
from rules.judging import PartRules
from rules.numbers import parse
from rules.tallies import add_sums

from testkit.facts import SLOT, condition, count, declare, summed
from waltally.facts import Fact
from waltally.facts import parse as parse_fact
from waltally.tables import Table

LONG = ("a" * 900, "b" * 901, "é" * 501, "")
NUMBERS = ("1", "1.0", "-2.50", "0.005", "99999999.99", "1e3", "x", "9" * 2002, "9" * 40, None)
TIMES = ("2026-10-25 00:30:00.5+00", "2026-03-29 01:30:00+00", "infinity", "2026-10-25 00:59:59+00")
DOCUMENTS = ('{"a": "x"}', '{"a": 1.50}', '{"a": "\\u0000"}', "[]", "no json", "null", None)
VALUES: dict[str, Sequence[str | None]] = {
    "state": ("0", "1", "7", "x", None),
    "first": ("t", *LONG, None),
    "second": ("t", *LONG, None),
    "amount": NUMBERS,
    "rate": ("2", "0.5", "x", None),
    "at": (*TIMES, None),
    "doc": DOCUMENTS,
}
"""By column the texts that the stream may have of it."""


def dimension(name: str, type_: str, of: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = declare("public.odd", (name, type_))["dimensions"][0]
    return made | {"column": of, **more}


PRODUCT = {**summed("amount", "product"), "columns": ["amount", "rate"]}
IN_LIST = condition("state", "in", "0", "1", None)
DECLARED: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "texts": (
        [dimension("first", "text", "first"), dimension("second", "text", "second", nulls="count")],
        [count("n", "rows"), {**count("few", "rows"), "where": [IN_LIST]}],
        [condition("state", "is_null")],
    ),
    "labels": (
        [
            dimension("state", "text", "state", labels={"0": "new"}, value_type="integer"),
            dimension("hour", "timestamptz", "at", kind="period", unit="hour", timezone="UTC"),
        ],
        [summed("amount", "total"), {**PRODUCT, "where": [condition("rate", "below", "1.5")]}],
        [condition("at", "below", "2026-10-25 00:45:00")],
    ),
    "paths": (
        [
            dimension("found", "text", "doc", kind="path", path=["a"]),
            dimension("size", "numeric", "amount", kind="bucket", bounds=["0", "1.0", "1000"]),
        ],
        [{**summed("amount", "cents"), "type": "numeric(8, 2)"}, count("n", "rows")],
        [condition("rate", "not_in", "2"), condition("amount", "at_least", "1")],
    ),
    "nothing": ([], [count("n", "rows"), PRODUCT], []),
}
"""By name: dimensions, measures and conditions of a fact."""

Counted = tuple[dict[tuple[str | None, ...], list[Any]], Counter[str]]


def fact_of(name: str) -> Fact:
    dimensions, measures, where = DECLARED[name]
    declared = declare("public.odd", measures=measures, where=where)
    return parse_fact(name, Table("analytics", name), declared | {"dimensions": dimensions})


def one_by_one(fact: Fact, rows: list[dict[str, str | None]]) -> Counted:
    [part] = fact.tables
    rules = PartRules(fact, part, SLOT)
    read = messages.reader({part.table: [part.column(each) for each in rules.columns]})
    groups: dict[tuple[str | None, ...], list[Any]] = {}
    others: Counter[str] = Counter()
    for row in rows:
        columns = [{"name": name, "value": text} for name, text in row.items()]
        message = {"action": "I", "schema": "public", "table": "odd", "columns": columns}
        change = read("I", json.dumps(message).encode())
        assert change is not None
        verdict = rules.judge(change)
        if verdict.reason is not None:
            others[verdict.reason] += 1
        for _, image in verdict.signed:
            if image.has:
                add_sums(groups, image.group, image.adds)
            else:
                others[NULL_DIMENSION] += 1
    return groups, others


def sent(value: Value, column: str, text: str | None) -> str | None:
    """As the server sends it."""
    if value.kind != "path" or text is None:
        return text
    try:
        found = documents.text_at(text, value.path)
    except ValueError:
        return "!"
    return None if found is None else f"={found}"


def by_column(fact: Fact, rows: list[dict[str, str | None]], cuts: int) -> Counted:
    [part] = fact.tables
    values = needed([fact], part.table)
    parts = parts_of([fact], part.table)
    counting = TableCounting(0, values, parts, SLOT, False, frozenset(), 4)
    tables: dict[int, list[pa.Table]] = {}
    for begin in range(0, len(rows), cuts):
        arrays = {
            column_name(place, factor): pa.array(
                [sent(value, column, row[column]) for row in rows[begin : begin + cuts]],
                pa.string(),
            )
            for place, value in enumerate(values)
            for factor, column in enumerate(value.columns)
        }
        for found in counting.partials(iter([pa.RecordBatch.from_pydict(arrays)])):
            [row] = found.to_pylist()
            tables.setdefault(row["bucket"], []).append(
                pa.ipc.open_stream(row["payload"]).read_all()
            )
    groups: dict[tuple[str | None, ...], list[Any]] = {}
    others: Counter[str] = Counter()
    for each in tables.values():
        for row in counting.groups(0, each).to_pylist():
            if row["reason"] is None:
                assert tuple(row["dimensions"]) not in groups
                groups[tuple(row["dimensions"])] = [parse(text) for text in row["sums"]]
            else:
                others[row["reason"]] += row["row_count"]
                assert row["reason"] == NULL_DIMENSION or json.loads(row["example"])
    return groups, others


@pytest.mark.parametrize("name", DECLARED)
def test_columns_are_judged_as_rows_are(name: str) -> None:
    dice, fact = Random(7), fact_of(name)
    for cuts in (1, 7, 1000):
        rows = [
            {column: dice.choice(texts) for column, texts in VALUES.items()} for _ in range(500)
        ]
        found, wanted = by_column(fact, rows, cuts), one_by_one(fact, rows)
        assert found[1] == wanted[1]
        assert found[0] == wanted[0]
        assert wanted[0]
