"""Rows that the server has grouped are the rows that it would have sent, and it groups where few."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from common import arrow_source
from common.connections import connect
from common.settings import Aggregate
from counting import columns, grouping, group_estimate, reading, snapshot, values
from counting.group_estimate import Estimate, judge
from counting.ranges import PAGES_PER_RANGE, leaves

from tests.spark.support import Source
from tests.spark.test_seed_refusals import settings
from tests.support.facts import column, declare
from waltally.facts import Fact, parse
from waltally.tables import Table

ODD = Table("public", "odd")
CREATE = """
    create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create domain tag as varchar(10);
    create domain price as numeric(20, 4);
    create type mood as enum ('sad', 'ok');
    create type pair as (a integer, b text);
    create table odd (
        id uuid, small smallint, whole bigint, number numeric, real_ real, double_ float8,
        fixed char(4), text_ text, blind text collate blind, tag tag, mood mood, pair pair,
        flag boolean, bytes bytea, day date, at timestamp, moment timestamptz, span interval,
        address inet, amount numeric, price price
    )
"""
CHOICES: dict[str, tuple[Any, ...]] = {
    "id": ("11111111-aaaa-1111-1111-111111111111", "22222222-aaaa-1111-1111-111111111111"),
    "small": (7, -7),
    "whole": (2**62, 2**62 - 1),
    "number": ("1", "1.0", "1.00", "NaN", "-0", "Infinity", "1e20"),
    "real_": ("0", "-0", "1e20", "NaN", "0.1"),
    "double_": ("0", "-0", "1e20", "Infinity", "0.1"),
    "fixed": ("a", "a  ", "b"),
    "text_": ("a", "a ", "A", "", "ü", "u\u0308"),
    "blind": ("a", "A", "b"),
    "tag": ("a", "a ", "b"),
    "mood": ("sad", "ok"),
    "pair": ("(1,a)", "(,)", "(1,)"),
    "flag": (True, False),
    "bytes": ("\\x00", "\\x0000"),
    "day": ("2026-03-29", "infinity", "-infinity", "0044-03-15 BC", "12026-01-01", "25000-01-01"),
    "at": ("2026-03-29 00:59:59.9", "2026-03-29 00:30", "infinity", "5000-01-01 BC", "24000-07-01"),
    "moment": ("2026-03-28 23:59+00", "2026-10-25 01:30+01", "2026-10-25 01:30+00", "-infinity"),
    "span": ("1 mon", "30 days", "24 hours", "1 day"),
    "address": ("10.0.0.1", "10.0.0.1/32", "10.0.0.0/8"),
    "amount": ("1", "1.50", "1.500", "1.505", "-2", "NaN", "Infinity", "1e950", "-1e999", "1e1000"),
    "price": ("0.0001", "7", "NaN"),
}
SUMMED = ("small", "whole", "amount", "price")


def odd_fact(*dimensions: str, days: bool = False) -> Fact:
    """Declare a fact by these columns that adds up numbers; their types matter to Spark alone."""
    declaration = declare(
        "public.odd",
        *((name, "text") for name in dimensions),
        where=[
            {"column": "text_", "test": "is_null", "values": [], "is_null": True},
            {"column": "blind", "test": "in", "values": ["a"], "is_null": None},
        ],
        measures=[
            {"name": f"{name}_{place}", "kind": "sum", "column": name, "of": ["rows"], "type": type_}
            for name in SUMMED
            for place, type_ in enumerate(("numeric", "numeric(12, 2)", "bigint"))
        ],
    )
    zones = {"timezone": "Europe/London", "column_timezone": "America/New_York"}
    for name in ("day", "at", "moment") if days else ():
        for kind in ("date_of", "month_of"):
            declaration["dimensions"].append(
                column(f"{name}_{kind}", "date", kind=kind, column=name, **zones)
            )
    return parse("ft_odd", Table("analytics", "ft_odd"), declaration)


def fill(source: Source, rows: int = 400) -> None:
    dice = Random(7)
    with source.connect() as connection:
        connection.execute(CREATE)
        with connection.cursor() as cursor:
            for _ in range(rows):
                # Mostly one value of each column, so that groups have several rows.
                row = [dice.choice((*choices[:1] * 12, *choices, None)) for choices in CHOICES.values()]
                cursor.execute(f"insert into odd values ({', '.join(['%s'] * len(row))})", row)


@pytest.mark.parametrize("name", [*CHOICES, "days"])
def test_groups_are_the_rows_that_spark_could_not_tell_apart(source: Source, name: str) -> None:
    fill(source)
    fact = odd_fact(days=True) if name == "days" else odd_fact(name)
    needed = values.needed([fact], ODD)
    measures = {
        each: values.measures_of([fact], ODD, each) for each in needed if each.kind == "number"
    }
    with closing(connect(source.dsn, "LOADER_SOURCE_DSN")) as connection:
        types = columns.types_of(connection, ODD, [each.column for each in needed])
        by_row = connection.execute(columns.rows(types, needed).query("from odd").encode()).fetchall()
        grouped = connection.execute(
            grouping.groups(types, needed, measures).query("from odd").encode()
        ).fetchall()

    keys = [place for place, each in enumerate(needed) if each.kind != "number"]
    numbers = [place for place, each in enumerate(needed) if each.kind == "number"]
    counted: Counter[tuple[Any, ...]] = Counter()
    expected: Counter[tuple[Any, ...]] = Counter(tuple(row[at] for at in keys) for row in by_row)
    sums: dict[tuple[Any, ...], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * len(numbers))
    for row in grouped:
        group, row_count, totals = tuple(row[at] for at in keys), row[len(needed)], row[len(needed) + 1:]
        counted[group] += row_count
    assert counted == expected
