"""Groups of the server are the rows that it would have sent, and it groups where they are few."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Context, Decimal
from random import Random
from typing import Any

import pytest
from common import typed_values
from common.connections import connect
from counting import columns, grouping, reading, values
from counting.grouping import Estimate, judge

from testkit.commands import wait_until
from testkit.facts import column, declare, notify
from testkit.servers import Cluster
from tests.spark.support import Source, exported, job_settings, notify_source
from waltally.errors import LoaderError
from waltally.facts import Fact, parse
from waltally.tables import Table

EXACT = Context(prec=3000)
ODD = Table("public", "odd")
CREATE = """
    create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create domain tag as varchar(10);
    create domain price as numeric(20, 4);
    create type mood as enum ('sad', 'ok');
    create domain blind_tag as text collate blind;
    create type pair as (a integer, b text);
    create table odd (
        id uuid, small smallint, whole bigint, number numeric, real_ real, double_ float8,
        fixed char(4), text_ text, blind text collate blind, tag tag, mood mood, pair pair,
        flag boolean, bytes bytea, day date, at timestamp, moment timestamptz, span interval,
        address inet, amount numeric, price price,
        blind_tag blind_tag, blind_code char(4) collate blind, blind_texts text[] collate blind
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
    "at": ("2026-03-29 00:59:59.9", "2026-03-29 00:30", "infinity", "4712-01-01 BC", "24000-07-01"),
    "moment": ("2026-03-28 23:59+00", "2026-10-25 01:30+01", "2026-10-25 01:30+00", "-infinity"),
    "span": ("1 mon", "30 days", "24 hours", "1 day"),
    "address": ("10.0.0.1", "10.0.0.1/32", "10.0.0.0/8"),
    "amount": ("1", "1.50", "1.500", "1.505", "-2", "NaN", "Infinity", "1e950", "-1e999", "1e1000"),
    "price": ("0.0001", "7", "NaN"),
    "blind_tag": ("a", "A", "b"),
    "blind_code": ("a", "A", "b"),
    "blind_texts": ("{a}", "{A}", "{b}"),
}
SUMMED = ("small", "whole", "amount", "price")


TYPES = ("numeric", "numeric(12, 2)", "bigint")


def odd_fact(*dimensions: str, days: bool = False, type_: str = "numeric") -> Fact:
    """Declare a fact by these columns that adds up numbers as this type."""
    declaration = declare(
        "public.odd",
        *((name, "text") for name in dimensions),
        where=[
            {"column": "text_", "test": "is_null", "values": [], "is_null": True},
            {"column": "blind", "test": "in", "values": ["a"], "is_null": None},
        ],
        measures=[
            {
                "name": f"{name}_sum",
                "kind": "sum",
                "columns": [name],
                "of": ["rows"],
                "type": type_,
                "where": [],
            }
            for name in SUMMED
        ]
        + [
            {
                "name": f"{one}_{other}",
                "kind": "sum",
                "columns": [one, other],
                "of": ["rows"],
                "type": type_,
                "where": [],
            }
            for one, other in (("amount", "amount"), ("small", "price"))
        ],
    )
    zones = {"timezone": "Europe/London", "column_timezone": "America/New_York"}
    for name in ("day", "at", "moment") if days else ():
        for unit in ("hour", "day", "week", "month", "quarter", "year")[name == "day" :]:
            type_ = "timestamptz" if unit == "hour" else "date"
            declaration["dimensions"].append(
                column(f"{name}_{unit}", type_, kind="period", unit=unit, column=name, **zones)
            )
    return parse("ft_odd", Table("analytics", "ft_odd"), declaration)


def fill(source: Source, rows: int = 300) -> None:
    dice = Random(7)
    source.execute(CREATE)
    for _ in range(rows):
        # Mostly one value of each column, so that groups have several rows.
        row = [dice.choice((*[each[0]] * 12, *each, None)) for each in CHOICES.values()]
        source.execute(f"insert into odd values ({', '.join(['%s'] * len(row))})", *row)


def refused(number: str | None, type_: str) -> bool:
    """Return whether typed_values.number_reason refuses a number of the server."""
    if number is None:
        return False
    if not Decimal(number).is_finite() or len(number) > typed_values.LONGEST:
        return True
    kept = {"numeric": 9999, "numeric(12, 2)": 2, "bigint": 0}[type_]
    most = {"numeric": "inf", "numeric(12, 2)": "9999999999.99", "bigint": str(2**63 - 1)}
    is_small = abs(Decimal(number)) <= Decimal(most[type_])
    return len(number.partition(".")[2].rstrip("0")) > kept or not is_small


@pytest.fixture(scope="module")
def odd(cluster: Cluster) -> Iterator[Source]:
    with notify_source(cluster) as source:
        fill(source)
        yield source


@pytest.mark.parametrize("type_", TYPES)
def test_groups_are_the_rows_that_spark_could_not_tell_apart(odd: Source, type_: str) -> None:
    source = odd
    facts = [odd_fact(name, type_=type_) for name in CHOICES] + [odd_fact(days=True, type_=type_)]
    for fact in facts:
        needed = values.needed([fact], ODD)
        numbers = [place for place, each in enumerate(needed) if each.kind == "number"]
        keys = [place for place in range(len(needed)) if place not in numbers]
        measures = {needed[at]: values.measures_of([fact], ODD, needed[at]) for at in numbers}
        with closing(connect(source.dsn, "source")) as connection:
            types = columns.types_of(
                connection, ODD, [name for each in needed for name in each.columns]
            )
            single, grouped = (
                source.execute(selection.query("from odd"))
                for selection in (
                    columns.rows(types, needed),
                    grouping.groups(types, needed, measures),
                )
            )
        # Rows with a number that Spark refuses are told apart by its text, others not.
        wanted: dict[Any, Any] = {}
        found: dict[Any, Any] = {}
        for rows, result in ((single, wanted), (grouped, found)):
            for row in rows:
                texts = [None if row[at] is None else str(row[at]) for at in numbers]
                bad = tuple(text if refused(text, type_) else None for text in texts)
                group = (*(row[at] for at in keys), bad)
                counted, *sums = result.get(group, (0, *[Decimal(0)] * len(numbers)))
                totals = row[len(needed) + 1 :] if rows is grouped else texts
                if not any(bad):
                    pairs = zip(sums, totals, strict=True)
                    sums = [EXACT.add(*map(Decimal, (one, other or 0))) for one, other in pairs]
                result[group] = (counted + (row[len(needed)] if rows is grouped else 1), *sums)
        assert found == wanted, fact.dimensions
        assert len(grouped) < len(single), "nothing was grouped"


@pytest.mark.parametrize(
    ("group", "is_grouped"),
    [
        ("n % 500", True),
        ("n / 50", True),
        # Rows of a page are alike, but each page has groups of its own.
        ("n / 8", False),
        ("n", False),
        ("n % 10000", False),
    ],
)
def test_the_server_counts_where_a_sample_shows_few_groups(
    shared_source: Source, group: str, is_grouped: bool
) -> None:
    source = shared_source
    source.execute(
        "drop table if exists spread; create table spread (a integer, b integer, filler text);"
        f"insert into spread select ({group}) % 20, ({group}) / 20, repeat('x', 200)"
        " from generate_series(0, 39999) as n"
    )
    fact = parse(
        "ft_spread",
        Table("analytics", "ft_spread"),
        declare("public.spread", ("a", "integer"), ("b", "integer")),
    )
    with exported(source, fact) as held:
        [(table, leaves)] = held.found
        assert leaves[0].pages > 3 * grouping.SAMPLED_PAGES
        selection, _ = reading.select(held, job_settings(source), [fact], table, leaves)
    assert bool(selection.grouped) == is_grouped


def test_a_table_that_another_session_waits_for_is_not_sampled(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "LOCK_TIMEOUT", "100ms")
    source.fill(services=1, templates=1, rows=400)
    facts = [notify()]
    with exported(source) as held, source.session() as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.ask, "truncate notifications")
        wait_until(lambda: source.waiting("relation"))
        found = [
            reading.select(held, job_settings(source), facts, table, leaves)[0].grouped
            for table, leaves in held.found
        ]
        other.cancel()
        with pytest.raises(LoaderError, match="canceling statement"):
            waiting.result()
    assert [bool(each) for each in found] == [False, True]


def test_what_a_sample_says_of_a_range() -> None:
    # Half of a range: what was seen twice will be seen again, the rest is as new as half of it.
    assert judge(1000, 100, 500, 0, 0.5) == Estimate(2000, 100)
    assert judge(1000, 100, 100, 100, 0.5) == Estimate(2000, 200)
    assert judge(0, 0, 0, 0, 1.0).are_few
    assert not Estimate(1e9, grouping.MAX_GROUPS + 1).are_few
