"""A value is counted or rejected alike by the seed, in the stream, by the audit and in a replay.

One table has a row for each value, and facts of every kind of dimension, sum and condition. Orders
in two tables feed one fact, and services are current rows whose old keys alone are in the stream.
Each test reads what all of them made of it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from string import printable
from typing import Any

import pytest

from testkit.databases import empty_database
from testkit.project import host_project
from testkit.servers import Cluster
from tests.spark.audited import Audited
from tests.spark.support import counted_by

TABLE = """
    create extension citext;
    create collation blind (
        provider = icu, locale = 'und-u-ks-level2', deterministic = false
    );
    create domain anything as numeric;
    create domain blind_tag as text collate blind;
    create type mood as enum ('sad', 'o''k "x" \\ y');
    create type pair as (word char(4), size numeric);
    create table odd (
        id serial primary key, kind text default 'odd', label text, day date, at timestamp,
        moment timestamptz, amount anything, size numeric check (size < 1e9 and size > -1e9),
        word text, span interval, long text, second text generated always as (long) stored,
        third text generated always as (long) stored,
        number numeric check (number < 1e40 and number > -1e40),
        real_ real check (real_ < 1e30 and real_ > -1e30),
        double_ float8 check (double_ < 1e30 and double_ > -1e30),
        whole bigint, state integer, doc jsonb, json_ json, fixed char(4),
        blind text collate blind, tag blind_tag, code char(4) collate blind,
        texts text[] collate blind, email citext, mood mood, pair pair, bytes bytea,
        address inet, meeting timetz, same jsonb
    );
    alter table odd replica identity full;

    create function pick(n integer, place integer, variadic choices text[]) returns text
        return choices[1 + (hashint4(n * 10 + place) & 65535) % cardinality(choices)];
    create table orders (
        id serial primary key, shop integer, channel text, is_test boolean, amount numeric,
        placed_at timestamptz
    );
    create table "Old Orders" (
        id serial primary key, shop integer, channel text, is_test boolean,
        "Grand""Total" numeric, "Placed At" timestamp
    );
    alter table orders replica identity full;
    alter table "Old Orders" replica identity full;

    create table services (
        region text, id integer, name text, body text, is_open boolean, seen timestamptz,
        primary key (region, id)
    );
    alter table services alter body set storage external;

    create table measured (id serial primary key, size numeric, factor numeric);
    alter table measured replica identity full
"""
ORDERS = """
    insert into {} (shop, channel, is_test, {}, {})
    select
        pick(n, 1, '1', '1', '2', '-2147483648', null)::integer,
        pick(n, 2, 'web', 'a "b" \\ (c),', '', 'ünï', null),
        pick(n, 3, 'false', 'false', 'false', 'true', null)::boolean,
        pick(
            n, 4, '0', '0.01', '-0.01', '12.50', '-7.125', '0.1', '0.2', null,
            '99999999999999999999.999999999999', '-0.000000000000000000000000000000000001',
            '123456789012345678901234567890123456789.5'
        )::numeric,
        -- Around both changes of clock in London and in New York, around midnight, and far away.
        pick(
            n, 5, '2026-03-29 00:59:59.999999', '2026-03-29 01:30:00', '2026-10-25 00:30:00',
            '2026-10-25 01:30:00', '2026-11-01 00:30:00', '2026-11-01 05:30:00',
            '2026-03-08 02:30:00', '2026-06-30 22:59:59', '2026-06-30 23:00:00', null,
            '2026-12-31 23:59:59', '0001-01-02 00:00:00', '9999-12-30 12:00:00'
        )::timestamp
    from generate_series(1, 120) as n
"""
ORDER_COUNT = """
    with image as (
        select shop, channel, is_test, amount, placed_at at time zone 'Europe/London' as moment,
            placed_at at time zone 'UTC' as utc, 1 as placed
        from orders
        union all
        select shop, channel, is_test, "Grand""Total",
            "Placed At" at time zone 'America/New_York' at time zone 'Europe/London', "Placed At", 0
        from "Old Orders"
    )

    select
        shop::text, channel, moment::date::text, date_trunc('month', moment)::date::text,
        sum(placed), sum(1 - placed), coalesce(sum(amount), 0), coalesce(sum(amount * amount), 0),
        count(*) filter (where utc >= '2026-03-29 01:00' and utc < '2026-10-25'),
        coalesce(sum(amount) filter (
            where placed = 1 and amount >= 0.1 and channel in ('web', '')
        ), 0)
    from image
    where shop is not null and moment is not null and is_test not in (true)
    group by 1, 2, 3, 4
"""
"""What the fact of the orders must hold."""
SERVICES = (
    (8, "insert into services select 'r', coalesce(max(abs(id)), 0) + 1, 'n', repeat('y', 3000),"
        " true, '2026-03-29 00:30:00.10+00' from services"),
    (2, "insert into services select 'r', coalesce(max(abs(id)), 0) + 1 from services"),
    # The body is stored out of line and does not change.
    (3, "update services set name = name || 'é\"' where id % 3 = {n}"),
    (3, "update services set id = -id where id = (select max(id) from services where id > 0)"),
    (2, "update services set region = region || 's', is_open = not is_open where id % 5 = {n}"),
    (2, "update services set body = repeat('z', 2500 + {n}) where id % 7 = {n}"),
    (1, "delete from services where id % 11 = {n}"),
)  # fmt: skip
"""How often each change is made."""
MEASURED = """
    insert into measured (size, factor) values
        (1.5, 2), ('NaN', 2), ('Infinity', 2), (2, 'NaN'), ('NaN', 'NaN'), (null, 7), (1, null)
"""
BERLIN = {"timezone": "Europe/Berlin"}
NEW_YORK = {"column_timezone": "America/New_York"}
Texts = Mapping[str, str | None]

DATES: Texts = {
    "2026-02-28": "2026-02-28",
    "9999-12-31": "9999-12-31",
    **dict.fromkeys(("infinity", "-infinity", "0044-03-15 BC", "10000-01-01")),
}
TIMES: Texts = {
    "2026-10-25 00:30:00": "2026-10-25 00:30:00",
    "2026-10-25 00:30:00.50": "2026-10-25 00:30:00.5",
    "2026-03-29 01:30:00": "2026-03-29 01:30:00",
    # In Havana, the first hour after the first of two midnights.
    "2025-11-02 04:10:00": "2025-11-02 04:10:00",
    **dict.fromkeys(("infinity", "-infinity", "0044-03-15 12:00 BC", "12026-01-01 00:00")),
}
MOMENTS: Texts = {
    f"{text}+00": value and f"{value}+00" for text, value in TIMES.items() if text[0] in "12"
} | dict.fromkeys(("infinity", "0044-03-15 12:00+00 BC"))
NUMBERS: Texts = {
    **{"1": "1.00", "1.0": "1.00", "1.050": "1.05", "-0.0": "0.00", "99": "99.00"},
    **dict.fromkeys(("1.005", "1234567.00")),
}
NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
DICE = Random(1)
SHORT, LONG = ("".join(DICE.choices(printable[:62], k=size)) for size in (600, 601))
"""Three of the one fit into an index, which compresses neither; three of the other are refused."""
UUID = "ABCDEFAB" + "-abcd" * 3 + "-ABCDEFABCDEF"
DOCUMENTS: Texts = {
    '{"a": {"b": "x"}}': "x",
    '{"a": {"b": 1.50}}': "1.50",
    '{"a": {"b": true}}': "true",
    '{"a": {"b": ""}}': "",
    '{"a": {"b": "\\ud83d\\ude00 \\\\u0000 \\"q\\" \\u00e9"}}': '\U0001f600 \\u0000 "q" é',
    **dict.fromkeys(('{"a": {"b": null}}', '{"a": 7}', "[]", "null", '"a"')),
    f'{{"a": {{"b": "{"y" * 1001}"}}}}': None,
}

CASES: dict[str, tuple[str, str | dict[str, Any], Texts]] = {
    "ft_day": ("day", "date", DATES),
    "ft_month": (
        "day",
        {"month_of": "day", **BERLIN},
        {text: value and f"{value[:8]}01" for text, value in DATES.items()},
    ),
    "ft_at": ("at", "timestamp", TIMES),
    "ft_moment": ("moment", "timestamptz", MOMENTS),
    "ft_amount": ("amount", "numeric(8, 2)", {**NUMBERS, **dict.fromkeys(NO_NUMBERS)}),
    "ft_size": ("size", "numeric(8, 2)", NUMBERS),
    "ft_whole_size": ("size", "smallint", {"1": "1", "99": "99"}),
    "ft_flag": ("word", "boolean", {"true": "true", "false": "false", "t": None}),
    "ft_long": ("long", "text", {SHORT: SHORT, LONG: None}),
    "ft_id": ("word", "uuid", {UUID: UUID.lower()}),
    "ft_bucket": (
        "amount",
        {"bucket_of": "amount", "bounds": [-0.5, 1.005, 99]},
        dict.fromkeys(("1", "1.0", "-0.0"), "-0.500")
        | {"1.005": "1.005", "1.050": "1.005", "99": "99.000", "1234567.00": "99.000"},
    ),
    "ft_whole_bucket": (
        "whole",
        {"bucket_of": "whole", "bounds": [5]},
        {"-9223372036854775808": None, "4": None, "5": "5"},
    ),
    "ft_state": (
        "state",
        {"labels": {"0": "draft"}, "type": "integer"},
        {"0": "draft", "7": "7"},
    ),
    "ft_other_state": (
        "state",
        {"labels": {"0": "draft"}, "type": "integer", "else": "other"},
        {"0": "draft", "7": "other"},
    ),
    "ft_path": ("doc", {"path": ["a", "b"], "of": "doc"}, DOCUMENTS),
    "ft_json_path": (
        "json_",
        {"path": ["a", "b"], "of": "json_"},
        {**DOCUMENTS}
        | {'{"a": {"b": 1}, "a": {"b": 2}}': "2", '{"\\u0061": {"b": 3}}': "3"}
        | {'{"a": {"b": "\\ud83d"}}': None},
    ),
}
"""By fact: a column, the dimension, and the group of a value: None where none takes it."""

ALIKE: dict[str, Texts] = {
    "number": {"1": "1", "1.0": "1.0", "1.00": "1.00", "-0.0": "0.0", "9.5": "9.5"},
    "real_": {"0": "0", "-0": "0", "1e20": "1" + "0" * 20, "0.1": "0.1"},
    "double_": {"0": "0", "-0": "0", "1e22": "1" + "0" * 22, "1e-7": "0.0000001"},
    "span": {text: text for text in ("1 day", "24:00:00", "1 mon", "30 days")},
    "same": {text: text for text in ('{"a": 1.0}', '{"a": 1.00}', "1", '"1"')},
    "fixed": {"a": "a   ", "A": "A   "},
    **{name: {"a": "a", "A": "A", "á": "á"} for name in ("blind", "tag", "email")},
    "code": {"a": "a   ", "A": "A   "},
    "texts": {"{a}": "{a}", "{A}": "{A}"},
    "mood": {"sad": "sad", 'o\'k "x" \\ y': 'o\'k "x" \\ y'},
    "pair": {"(a,1.0)": '("a   ",1.0)', "(a,1.00)": '("a   ",1.00)', "(,NaN)": "(,NaN)"},
    "bytes": {"\\x00": "00", "\\x0000": "0000"},
    "address": {"10.0.0.1/32": "10.0.0.1", "10.0.0.1/24": "10.0.0.1/24"},
    "meeting": {"12:00+00": "12:00:00+00", "13:00+01": "13:00:00+01"},
}
"""By column of ft_alike: texts of values that its type takes for equal, and of others."""

PERIODS = {
    "at": "at at time zone 'America/New_York'",
    "moment": "moment",
}
"""By column of ft_at_periods and ft_moment_periods: the moment."""
UNITS: dict[str, tuple[dict[str, str], str]] = {
    **{
        unit: (
            {f"{'date' if unit == 'day' else unit}_of": ""},
            f"date_trunc('{unit}', {{0}} at time zone 'Europe/Berlin')::date",
        )
        for unit in ("day", "week", "quarter", "year")
    },
    "hour": ({"hour_of": ""}, "date_trunc('hour', {0})"),
    "slice": (
        {"bucket_of": "", "every": "6 hours"},
        "date_bin('6 hours', {0}, date_trunc('day', {0}, 'Europe/Berlin'))",
    ),
    "watch": (
        {"bucket_of": "", "every": "8 hours", "timezone": "America/Havana"},
        "date_bin('8 hours', {0}, case when {0} between '2025-11-02 04:00+00' and"
        " '2025-11-03 05:00+00' then '2025-11-02 04:00+00' else"
        " date_trunc('day', {0}, 'America/Havana') end)",
    ),
}
"""By dimension of those: how it is declared, and in SQL."""

CONDITIONS: tuple[tuple[str, dict[str, Any], set[str | None]], ...] = (
    ("number", {"at_least": "1.5"}, {"9.5"}),
    ("number", {"in": ["1.0", "9.50"]}, {"1.0"}),
    ("real_", {"below": "0.1"}, {"0", "-0"}),
    ("double_", {"at_least": "0.0000001"}, {"1e22", "1e-7"}),
    ("whole", {"below": 5}, {"-9223372036854775808", "4"}),
    ("day", {"below": "2026-03-01"}, {"2026-02-28", "-infinity", "0044-03-15 BC"}),
    ("at", {"at_least": "2026-10-25 00:30:00.1"}, {"2026-10-25 00:30:00.50", "infinity",
        "12026-01-01 00:00"}),
    ("moment", {"below": "2026-10-25 00:30:00.1"}, {"2026-10-25 00:30:00+00",
        "2026-03-29 01:30:00+00", "2025-11-02 04:10:00+00", "0044-03-15 12:00+00 BC"}),
    ("blind", {"in": ["a"]}, {"a"}),
    ("email", {"not_in": ["a"]}, {"A", "á"}),
    ("code", {"in": ["a   "]}, {"a"}),
    ("mood", {"in": ['o\'k "x" \\ y']}, {'o\'k "x" \\ y'}),
    ("word", {"is_null": False}, {"true", "false", "t", UUID}),
    ("word", {"in": ["t", "true", None]}, {"t", "true", None}),
    ("word", {"in": [None]}, {None}),
    ("word", {"not_in": ["t", None]}, {"true", "false", UUID}),
    ("word", {"not_in": [None]}, {"true", "false", "t", UUID}),
)  # fmt: skip
"""Conditions of a column, and the values for which they hold."""

SUMS = {
    "ft_total": ("numeric", NO_NUMBERS),
    "ft_cents": ("numeric(12, 2)", (*NO_NUMBERS, "1.005")),
    "ft_few_cents": ("numeric(8, 2)", (*NO_NUMBERS, "1.005", "1234567.00")),
}
"""By fact: the type of the sum, and the amounts that it does not take."""

ROW_COUNT = {"row_count": {"count": "rows"}}
SERVICE_TYPES = dict.fromkeys(("region", "name", "body"), "text") | {
    "id": "integer", "is_open": "boolean", "seen": "timestamptz",
}  # fmt: skip
LONG_TEXTS = dict.fromkeys(("long", "second", "third"), "text")


def dimension(fact: str) -> str:
    """Return what a fact of CASES calls its dimension."""
    column, declared, _ = CASES[fact]
    return column if isinstance(declared, str) or "labels" in declared else "value"


def model(dimensions: object, measures: object, table: str = "odd") -> str:
    return (
        f"{{{{ waltally.fact(tables={{'rows': 'public.{table}'}}, dimensions={dimensions!r},"
        f" measures={measures!r}) }}}}"
    )


SHOP = """
    {% set there = {'timezone': 'Europe/London', 'column_timezone': 'America/New_York'} %}
    {{ waltally.fact(
        tables={
            'placed': 'public.orders',
            'archived': {
                'table': 'public."Old Orders"', 'deletes': 'ignore',
                'columns': {'amount': 'Grand"Total', 'placed_at': 'Placed At'},
            },
        },
        dimensions={
            'shop': 'integer',
            'channel': {'type': 'text', 'nulls': 'count'},
            'day': dict(there, date_of='placed_at'),
            'month': dict(there, month_of='placed_at'),
        },
        measures={
            'placed_count': {'count': 'placed'},
            'archived_count': {'count': 'archived'},
            'amount': {'sum': 'amount'},
            'spread': {'sum': {'product': ['amount', 'amount']}},
            'summer_count': {
                'count': none,
                'where': {'placed_at': {'at_least': '2026-03-29 01:00:00', 'below': '2026-10-25'}},
            },
            'large_amount': {
                'sum': 'amount', 'of': 'placed',
                'where': {'amount': {'at_least': '0.1'}, 'channel': {'in': ['web', '']}},
            },
        },
        where={'is_test': {'not_in': [true]}, 'placed_at': {'below': '9999-12-31'}},
    ) }}
"""
MODELS = {
    **{
        name: model({dimension(name): declared}, ROW_COUNT)
        for name, (_, declared, _) in CASES.items()
    },
    **{
        name: model(
            {"kind": "text", "source": {"from": "slot"}},
            {**ROW_COUNT, "total": {"sum": "amount", "type": type_}},
        )
        for name, (type_, _) in SUMS.items()
    },
    "ft_long": model(LONG_TEXTS, ROW_COUNT),
    "rows_of_long": "{{ waltally.current_rows(table='public.odd',"
    f" key={['id', *LONG_TEXTS]!r}, columns={ {'id': 'integer', **LONG_TEXTS}!r}) }}}}",
    "ft_shop": SHOP,
    "services": "{{ waltally.current_rows(table='public.services', key=['region', 'id'],"
    f" columns={SERVICE_TYPES!r}) }}}}",
    "ft_measured": model(
        {"source": {"from": "slot"}},
        {
            **ROW_COUNT,
            "size": {"sum": "size"},
            "product": {"sum": {"product": ["size", "factor"]}},
        },
        "measured",
    ),
    "ft_alike": model({name: {"type": "text", "nulls": "count"} for name in ALIKE}, ROW_COUNT),
    **{
        f"ft_{column}_periods": model(
            {
                name: BERLIN
                | {key: text or column for key, text in declared.items()}
                | (NEW_YORK if column == "at" else {})
                for name, (declared, _) in UNITS.items()
            },
            ROW_COUNT,
        )
        for column in PERIODS
    },
    "ru_sizes": "{{ waltally.roll_up(fact=ref('ft_size'), dimensions={'size': 'size'},"
    " measures={'row_count': {'sum': 'row_count'}}) }}",
    "ft_conditions": model(
        {"label": "text"},
        {
            f"count_{number}": {"count": "rows", "where": {column: condition}}
            for number, (column, condition, _) in enumerate(CONDITIONS)
        },
    ),
}
CHECKED = {"ft_total", "ft_cents", "ft_size", "ft_alike", "ft_json_path", "ft_shop", "services"}
"""What is audited and replayed: each fact takes a second or two."""
if "WALTALLY_ALL_CASES" in os.environ:
    CHECKED = MODELS.keys() - {"ru_sizes"}
VALUES: dict[str, dict[str, None]] = {}
for _column, _texts in [*((each[0], each[2]) for each in CASES.values()), *ALIKE.items()]:
    VALUES.setdefault(_column, {}).update(dict.fromkeys(_texts))
ROWS = sum(map(len, VALUES.values()))
Held = dict[str, Counter[tuple[str | None, ...]]]
Rejected = Counter[tuple[str, str]]


def expected(times: int) -> Held:
    """Return how often each group is in its fact, when every value was written so many times."""
    held: Held = {name: Counter() for name in (*CASES, "ft_alike")}
    for name, (column, _, texts) in CASES.items():
        found = [texts.get(text) for text in VALUES[column]]
        held[name].update((each,) for each in times * found if each is not None)
    for column, written in VALUES.items():
        for text in written:
            values = [ALIKE[name].get(text) if name == column else None for name in ALIKE]
            held["ft_alike"][tuple(values)] += times
    return held


def conditions(times: int) -> set[tuple[str, ...]]:
    """Return by label for how many rows each condition holds, where one does."""
    return {
        (label(column, text), *counts)
        for column, texts in VALUES.items()
        for text in texts
        if any(
            # In a row of another column it is null.
            counts := [
                str(times * ((text if name == column else None) in has))
                for name, _, has in CONDITIONS
            ]
        )
        and set(counts) != {"0"}
    }


def label(column: str, text: str) -> str:
    return f"{column}: {text}"[:99]


@dataclass
class World:
    """The table and its facts."""

    pipeline: Audited
    wrong: dict[str, list[object]] = field(default_factory=dict)
    """By what was done: what the facts do not hold as they must."""
    rejected: dict[str, Rejected] = field(default_factory=dict)
    """By what was done: fact and reason of what is rejected, with the number of rows."""
    said: list[str] = field(default_factory=list)
    """By seed what it said."""
    rows: list[int] = field(default_factory=list)
    """By seed, the rows of all tables."""
    baselines: list[dict[str, tuple[str, str]]] = field(default_factory=list)
    """By seed and fact, the baseline's id and position."""

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.pipeline.source.execute(query, *values)

    def insert(self) -> None:
        """Insert a row of each value, and orders; change services."""
        self.ask(MEASURED)
        self.ask("truncate services")
        self.change_services(10)
        self.ask(ORDERS.format("orders", "amount", "placed_at"))
        self.ask(ORDERS.format('"Old Orders"', '"Grand""Total"', '"Placed At"'))
        for name, texts in VALUES.items():
            for text in texts:
                query = f"insert into odd ({name}, label) values (%s, %s)"
                self.ask(query, text, label(name, text))

    def change_services(self, transactions: int) -> None:
        shares, changes = zip(*SERVICES, strict=True)
        for _ in range(transactions):
            chosen = DICE.choices(changes, shares, k=DICE.randint(1, 3))
            self.ask("; ".join(each.format(n=DICE.randint(0, 4)) for each in chosen))

    def job(self, job: str, *flags: str) -> str:
        code, out, err = self.pipeline.run(*flags, job=job)
        assert code == 0, out + err
        return out + err

    def seed(self, *facts: str) -> None:
        tables = ("odd", "orders", '"Old Orders"', "services", "measured")
        counted = [self.ask(f"select count(*) from {table}")[0][0] for table in tables]
        self.rows.append(sum(counted))
        self.said.append(self.job("seed", *(word for each in facts for word in ("--model", each))))
        rows = self.ask("select fact_name, baseline_id, snapshot_lsn::text from cdc.baseline")
        self.baselines.append({name: (id_, at) for name, id_, at in rows})

    def look(self, done: str, times: int) -> None:
        """Stage and build, and note what is wrong with the facts."""
        self.pipeline.must("run", "--once")
        self.pipeline.build()
        wrong = self.wrong[done] = []
        for name, groups in expected(times).items():
            names = ALIKE if name == "ft_alike" else [dimension(name)]
            found = self.held(name, [f"{each}::text" for each in names])
            wrong += [(name, found - groups, groups - found)] if found != groups else []
        for column, moment in PERIODS.items():
            sql = [f"({each.format(moment)})::text" for _, each in UNITS.values()]
            query = f"select {', '.join(sql)} from odd where {column} is not null"
            years = r"^\d{4}-[^B]*$"
            recount = Counter(
                row for row in self.ask(query) if all(re.match(years, text) for text in row)
            )
            found = self.held(f"ft_{column}_periods", [f"{each}::text" for each in UNITS])
            wrong += [(column, found, recount)] if found != recount or not recount else []
        for name, (_, refused) in SUMS.items():
            amounts = [Decimal(text) for text in VALUES["amount"] if text not in refused]
            found_sums = self.ask(f"select row_count, total from analytics.{name}")
            sums = [((ROWS - len(refused)) * times, sum(amounts) * times)]
            wrong += [(name, found_sums, sums)] if found_sums != sums else []
        counts = [f"count_{number}::text" for number in range(len(CONDITIONS))]
        query = f"select label, {', '.join(counts)} from analytics.ft_conditions"
        met = {row for row in self.ask(query) if set(row[1:]) != {"0"}}
        wrong += [("conditions", met ^ conditions(times))] if met != conditions(times) else []
        held = self.ask(
            "select shop::text, channel, day::text, month::text, placed_count, archived_count,"
            " amount, spread, summer_count, large_amount from analytics.ft_shop"
            " where placed_count + archived_count <> 0"
        )
        counted = self.ask(ORDER_COUNT)
        wrong += [("ft_shop", set(held) ^ set(counted))] if set(held) != set(counted) else []
        rows = self.ask("select long from analytics.rows_of_long")
        wrong += [("rows_of_long", rows)] if rows != [(SHORT,)] * times else []
        services, stored = (
            set(self.ask(f"select {', '.join(SERVICE_TYPES)} from {schema}.services"))
            for schema in ("analytics", "public")
        )
        wrong += [("services", services ^ stored)] if services != stored or not stored else []
        measured = self.ask("select row_count, size, product from analytics.ft_measured")
        [(copies,)] = self.ask("select count(*) / 7 from measured")
        numbers = [(7 * copies, Decimal("4.5") * copies, 3 * copies)]
        wrong += [("ft_measured", measured)] if measured != numbers else []
        rows = self.ask(
            "select fact, reason, sum(case action when 'baseline' then"
            " (payload::jsonb ->> 'row_count')::bigint else 1 end)::bigint"
            " from analytics.rejected_changes group by 1, 2"
        )
        self.rejected[done] = Counter({(fact, reason): count for fact, reason, count in rows})

    def held(self, name: str, columns: list[str]) -> Counter[tuple[str | None, ...]]:
        query = f"select {', '.join(columns)}, row_count from analytics.{name}"
        return Counter({tuple(group): rows for *group, rows in self.ask(query) if rows})


APART = {"ft_conditions", "rows_of_long"}
"""What is seeded apart: beside its labels or ids every row would be a group of its own."""


@pytest.fixture(scope="module")
def world(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("values")
    with empty_database(cluster, "odd") as database:
        made = World(Audited(database, home))
        made.pipeline.use_project(host_project(home, MODELS))
        database.execute(TABLE)
        made.insert()
        made.pipeline.must("setup")
        with counted_by("server"):
            made.seed(*APART)
            made.seed(*MODELS.keys() - {"ru_sizes", *APART})
        made.look("seeded by the server", 1)
        made.insert()
        made.look("streamed", 2)
        database.execute("delete from odd where id <= %s", ROWS)
        database.execute("delete from orders where id % 3 = 0")
        made.look("deleted", 1)
        with counted_by("Spark"), made.pipeline.follow():
            made.seed()
        made.look("seeded by Spark", 1)
        made.change_services(40)
        made.look("changed", 1)
        made.ask("delete from cdc.fact where not fact_name = any(%s)", list(CHECKED))
        yield made


DONE = ("seeded by the server", "streamed", "deleted", "seeded by Spark", "changed")


@pytest.mark.parametrize("done", DONE)
def test_every_value_is_in_its_group_and_no_other(world: World, done: str) -> None:
    assert world.wrong[done] == [], world.wrong[done]


def test_what_a_seed_rejects_the_stream_rejects(world: World) -> None:
    seeded = world.rejected["seeded by the server"]
    assert seeded == world.rejected["seeded by Spark"]
    assert {fact for fact, _ in seeded} > {"analytics.ft_day", "analytics.ft_total"}
    no_key = "the values of long, second, third together are longer than 1800 bytes"
    assert seeded["analytics.rows_of_long", no_key] == 1
    assert world.rejected["streamed"] - world.rejected["seeded by the server"] == seeded
    # A row that was never counted takes nothing away.
    assert world.rejected["deleted"] == world.rejected["streamed"]


def test_a_seed_says_what_it_left_out_and_why_with_an_example(world: World) -> None:
    _, by_server, by_spark = world.said
    nulls = ROWS - len(VALUES["size"])
    for said, copies in ((by_server, 1), (by_spark, 2)):
        numbers = f"{3 * copies} values are NaN or infinite, so null, in size of public.measured"
        assert f"  {numbers}" in said
        assert f"  {nulls} rows of public.odd left out: a dimension is null" in said
        assert "  3 rows of public.odd cannot be counted: the value of word is not a uuid" in said
    assert world.ask("select left_out from cdc.baseline where fact_name = 'ft_size'") == [
        ({"rows": nulls},)
    ]
    too_long = "select length(example ->> 'long') from cdc.baseline_rejection where fact_name = %s"
    assert world.ask(too_long, "ft_long") == [(100,)], "an example is cut"


def test_a_seed_reads_each_table_once_and_stores_all_facts_at_one_position(world: World) -> None:
    first, second, last = world.baselines
    assert first.keys() == APART
    assert first.items() < second.items(), "a seed of some facts touches no other"
    assert last.keys() == MODELS.keys() - {"ru_sizes"}
    assert (len(set(second.values())), len(set(last.values()))) == (2, 1)
    assert f"{world.rows[-1]:,} rows read" in world.said[-1]
    twice = "group by slot_name, fact_name, part, dimensions having count(*) > 1"
    assert world.ask(f"select fact_name from cdc.baseline_group {twice}") == []
    # One slot is the loader's.
    assert len(world.ask("select 1 from pg_replication_slots where database = 'odd'")) == 1
    assert not world.ask("select 1 from pg_class where relname ~ '^baseline_group_incoming'")


@pytest.mark.larger
def test_a_replay_of_the_archive_holds_the_same(world: World, tmp_path: Path) -> None:
    for _ in range(2):
        # What has no letter is read in another way.
        world.ask("update cdc.change_log set action = null where ordinal % 3 = 0")
        world.job("archive", "--to", str(tmp_path / "archive"))
        world.job("replay", "--from", str(tmp_path / "archive"), "--compare")
        # The first time, some services have values that only the seed knows.
        world.ask("truncate services")
        world.change_services(10)
        world.pipeline.must("run", "--once")
        world.pipeline.build()


@pytest.mark.larger
def test_an_audit_finds_a_wrong_cent_and_a_wrong_group_and_nothing_else(world: World) -> None:
    with world.pipeline.follow():
        world.ask("update analytics.ft_cents set total = total + 0.01")
        world.ask(
            "update analytics.ft_alike set row_count = row_count + case blind when 'a' then 1"
            " else -1 end where blind in ('a', 'A')"
        )
        # Rows of another slot are left alone.
        world.ask(
            "insert into analytics.ft_total (id, kind, source, row_count, total)"
            " values (gen_random_uuid(), 'odd', 'west', 7, 7)"
        )
        code, out, err = world.pipeline.run("--json", job="audit")
        world.ask("update analytics.ft_cents set total = total - 0.01")
        world.ask("delete from analytics.ft_total where source = 'west'")
    report = json.loads(out)
    assert (code, report["equal"], report["refused"]) == (42, False, {}), err
    found = {name: each["differences"] for name, each in report["facts"].items()}
    assert found.keys() == CHECKED
    [cent] = found.pop("ft_cents")
    assert (cent["measure"], cent["difference"]) == ("total", "0.01")
    assert sorted(each["difference"] for each in found.pop("ft_alike")) == ["-1", "1"]
    assert [each for each in found.values() if each] == []


def test_an_audit_finds_a_roll_up_that_differs_and_waits_with_its_fact(world: World) -> None:
    world.ask("delete from cdc.fact where fact_name not in ('ft_size', 'ft_total')")
    differs = "analytics.ru_sizes differs in 1 group from a recount"
    wrong: list[tuple[str, int, int]] = [
        ("update analytics.ru_sizes set row_count = row_count + 1 where size = 99", 0, 1),
        # The roll-up is as the tables say again.
        (
            "update analytics.ft_size set row_count = row_count + 1 where size = 99;"
            " update analytics.ru_sizes set row_count = row_count - 1 where size = 99",
            1,
            0,
        ),
    ]
    name = "update cdc.model_watermark set model_name = {} where model_name ~ 'ft_size'"
    with world.pipeline.follow():
        # A fact that waits for its first build holds no other up, but its roll-up.
        world.ask(name.format("'x' || model_name"))
        code, out, err = world.pipeline.run("--json", job="audit")
        report = json.loads(out)
        assert (code, set(report["facts"])) == (20, {"ft_total"}), err
        assert report["facts"]["ft_total"]["equal"] is True
        assert "ft_size waits: it was not built yet" in report["refused"]["ft_size"]
        assert "its input ft_size could not be compared" in report["refused"]["ru_sizes"]
        assert "Try: `loader run --build` or `dbt build`" in err
        world.ask(name.format("substr(model_name, 2)"))
        for change, of_fact, of_roll_up in wrong:
            world.ask(change)
            code, out, err = world.pipeline.run("--json", job="audit")
            report = json.loads(out)
            assert (code, report["equal"], report["refused"]) == (42, False, {}), err
            assert report["facts"]["ft_size"]["difference_count"] == of_fact
            assert report["roll_ups"]["ru_sizes"]["difference_count"] == of_roll_up
            assert (f"{differs}\nTry: `dbt build --full-refresh" in err) is bool(of_roll_up)
