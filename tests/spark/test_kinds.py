"""A dimension is the same at the server, in the database's routines and on Spark."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from common import typed_values
from common.connections import connect
from counting import columns
from counting.counts import stream_text
from counting.values import FactPart
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from testkit.facts import column, declare
from tests.spark.support import Source
from waltally.facts import Dimension, parse
from waltally.tables import Table

REJECTED = "rejected"
ZONES = {"timezone": "Europe/Berlin", "column_timezone": "America/New_York"}
TIMES = (
    *("infinity", "0001-01-01 00:10", "2026-03-29 01:30:00.5", "2026-10-25 00:30", "9999-12-31"),
    *("2026-10-25 01:30", "12026-01-01", "2026-07-01 23:59:59.999999", "0044-03-15 12:00 BC"),
)
DOCUMENTS = (
    *('{"a": {"b": "x"}}', '{"a": {"b": 1.50}}', '{"a": {"b": 1e2}}', '{"a": {"b": [1,  "2"]}}'),
    *('{"a": {"b": null}}', '{"a": {"b": true}}', '{"a": {"b": ""}}', '{"a": 7}', "[]", "null"),
    *('{"a": {"b": "\\ud83d\\ude00 \\\\u0000 \\"q\\" \\u00e9"}}', '{"a": {"b": "é\\n"}}', '"a"'),
    *('{"a": {"b": 123456789012345678901234567890}}', ' { "a" : { "b" : { "c" : 1 } } } '),
    f'{{"a": {{"b": "{"y" * 1001}"}}}}',
)
ODD_DOCUMENTS = (
    *('{"c": "\\u0000", "a": {"b": 1}}', '{"a": {"b": "\\ud83d"}}', '{"a": {"b": "\\ude00"}}'),
    *('{"a": {"b": 1}, "a": {"c": 2}}', '{"a": {"b": 1}, "a": {"b": 2}}', '{"\\u0061": {"b": 3}}'),
)
NUMBERS = ("0", "-0.01", "9.5", "9.4999999999999999999", "1e3", "1e30", "-1e30")


def dimension(type_: str, kind: str, **more: Any) -> Dimension:
    declared = declare("public.kinds", dimensions=[column("v", type_, kind=kind, **more)])
    return parse("f", Table("a", "f"), declared).dimensions[0]


def path(*names: str, type_: str = "text") -> Dimension:
    return dimension(type_, "path", path=list(names))


TESTED = [
    *(("jsonb", DOCUMENTS, path("a", "b", type_=type_)) for type_ in ("text", "boolean")),
    ("json", (*DOCUMENTS, *ODD_DOCUMENTS), path("a", "b")),
    ("json", ("[1, [2, 3]]", "[]", '{"-1": "x"}', "7"), path("-1")),
    *(
        (type_, NUMBERS, dimension("numeric(3, 1)", "bucket", bounds=["-0.5", "9.5", "99.0"]))
        for type_ in ("numeric", "real", "double precision")
    ),
    ("bigint", ("-9223372036854775808", "4", "5"), dimension("bigint", "bucket", bounds=["5"])),
    *(
        (type_, TIMES, dimension("timestamptz", "period", unit=unit, **ZONES))
        for type_ in ("timestamp", "timestamptz")
        for unit in ("hour", "900 seconds", "43200 seconds")
    ),
    *(
        (type_, TIMES, dimension("date", "period", unit=unit, **ZONES))
        for type_ in ("date", "timestamp", "timestamptz")
        for unit in ("week", "quarter", "year")
    ),
    (
        "integer",
        ("0", "1", "-7"),
        dimension("text", "column", labels={"0": "a"}, value_type="integer"),
    ),
    ("text", ("0", "1", "a"), dimension("text", "column", labels={"0": "a"}, value_type="integer")),
]


def of_routine(source: Source, dimension: Dimension, text: str) -> str | None:
    """What the functions of the database make of the stream's text."""
    if dimension.kind == "path":
        [(found,)] = source.execute("select cdc.value_at(%s, %s)", text, list(dimension.path))
        if found in ("\\null", '\\"unreadable"'):
            return None if found == "\\null" else REJECTED
        return str(json.loads(found[1:])) if found.startswith("\\") else str(found)
    zones = (dimension.column_timezone, dimension.timezone, dimension.unit)
    [(found,)] = source.execute("select cdc.period_of(%s, %s, %s, %s)", text, *zones)
    return REJECTED if found is None else str(found)


@pytest.mark.parametrize(("type_", "values", "dimension"), TESTED)
def test_all_three_say_the_same(
    shared_source: Source,
    spark: SparkSession,
    type_: str,
    values: tuple[str, ...],
    dimension: Dimension,
) -> None:
    source = shared_source
    source.execute(f"drop table if exists kinds; create table kinds (v {type_})")
    for each in (*values, None):
        source.execute(f"insert into kinds values (%s::text::{type_})", each)
    with closing(connect(source.dsn, "source")) as connection:
        types = columns.types_of(connection, Table("public", "kinds"), ["v"])
    fact = parse("f", Table("a", "f"), declare("public.kinds", ("v", "text")))
    value = FactPart(fact, fact.tables[0]).dimension(dimension)
    assert value is not None
    listed = f"{columns.written(types['v'], 'v')}, {columns.spelled(value, types['v'])}"
    asked = source.execute(f"select {listed} from kinds")
    rows = spark.createDataFrame(asked, "text string, server string")
    server = typed_values.labelled(stream_text(sql.col("server"), dimension), dimension)
    judged = [
        sql.when(typed_values.dimension_reason(each, dimension).isNotNull(), REJECTED).otherwise(
            each
        )
        for each in (server, typed_values.as_dimension(sql.col("text"), dimension))
    ]
    found = rows.select("text", *judged).collect()
    assert [row[1] for row in found] == [row[2] for row in found]
    assert len({row[1] for row in found}) > 1
    for text, ours, _ in found:
        if text is not None and dimension.kind in ("path", "period"):
            routine = of_routine(source, dimension, text)
            if ours != REJECTED or routine is None or dimension.kind == "period":
                assert routine == ours, text
