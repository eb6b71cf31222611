"""What a seed counts or rejects the stream counts or rejects, value by value."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from string import printable

import pytest
from auditing.job import audit

from testkit.databases import empty_database
from testkit.models import Models
from testkit.project import host_project
from testkit.servers import Cluster
from tests.spark.audited import Audited
from waltally.errors import BuildFailed

TABLE = """
    create domain anything as numeric;
    create table odd (
        id serial primary key, kind text default 'odd', day date, at timestamp,
        moment timestamptz, amount anything, size numeric check (size < 1e9 and size > -1e9),
        word text, span interval, long text, second text generated always as (long) stored,
        third text generated always as (long) stored
    );
    alter table odd replica identity full
"""
BERLIN = {"timezone": "Europe/Berlin"}
Texts = Mapping[str, str | None]

DATES: Texts = {
    "2026-02-28": "2026-02-28",
    "9999-12-31": "9999-12-31",
    **dict.fromkeys(("infinity", "-infinity", "0044-03-15 BC", "10000-01-01")),
}
TIMES: Texts = {
    "2026-10-25 00:30:00": "2026-10-25 00:30:00",
    "2026-10-25 00:30:00.50": "2026-10-25 00:30:00.5",
    **dict.fromkeys(("infinity", "-infinity", "0044-03-15 12:00 BC", "12026-01-01 00:00")),
}
NUMBERS: Texts = {
    **{"1": "1.00", "1.0": "1.00", "1.050": "1.05", "-0.0": "0.00", "99": "99.00"},
    **dict.fromkeys(("1.005", "1234567.00")),
}
DICE = Random(1)
SHORT, LONG = ("".join(DICE.choices(printable[:62], k=size)) for size in (600, 601))
"""Three of the one fit into an index, which compresses neither; three of the other are refused."""
NO_NUMBERS = ("NaN", "Infinity", "-Infinity")

CASES: dict[str, tuple[str, object, Texts]] = {
    "ft_day": ("day", "date", DATES),
    "ft_month": (
        "day",
        {"month_of": "day", **BERLIN},
        {text: value and f"{value[:8]}01" for text, value in DATES.items()},
    ),
    "ft_at": ("at", "timestamp", TIMES),
    "ft_day_of_at": (
        "at",
        {"date_of": "at", "column_timezone": "America/New_York", **BERLIN},
        {text: value and value[:10] for text, value in TIMES.items()},
    ),
    "ft_moment": (
        "moment",
        "timestamptz",
        {f"{text}+00": value and f"{value}+00" for text, value in TIMES.items() if text[0] in "12"}
        | dict.fromkeys(("infinity", "-infinity", "0044-03-15 12:00+00 BC")),
    ),
    "ft_day_of_moment": (
        "moment",
        {"date_of": "moment", **BERLIN},
        {f"{text}+00": value and value[:10] for text, value in TIMES.items() if text[0] in "12"},
    ),
    "ft_amount": ("amount", "numeric(8, 2)", {**NUMBERS, **dict.fromkeys(NO_NUMBERS)}),
    "ft_size": ("size", "numeric(8, 2)", NUMBERS),
    "ft_whole_size": ("size", "smallint", {"1": "1", "99": "99"}),
    "ft_span": ("span", "text", {text: text for text in ("1 day", "24:00:00", "1 mon", "30 days")}),
    "ft_flag": ("word", "boolean", {"true": "true", "false": "false", "t": None}),
    "ft_long": ("long", "text", {SHORT: SHORT, LONG: None}),
    "ft_id": (
        "word",
        "uuid",
        {"ABCDEFAB" + "-abcd" * 3 + "-ABCDEFABCDEF": "abcdefab" + "-abcd" * 3 + "-abcdefabcdef"},
    ),
}
"""By fact: a column, the dimension, and the group of a value: None where none takes it."""

SUMS = {
    "ft_total": ("numeric", NO_NUMBERS),
    "ft_cents": ("numeric(12, 2)", (*NO_NUMBERS, "1.005")),
    "ft_few_cents": ("numeric(8, 2)", (*NO_NUMBERS, "1.005", "1234567.00")),
}
"""By fact: the type of the sum, and the amounts that it does not take."""


def model(dimensions: Mapping[str, object], measures: object) -> str:
    return (
        f"{{{{ waltally.fact(tables={{'rows': 'public.odd'}}, dimensions={json.dumps(dimensions)},"
        f" measures={json.dumps(measures)}) }}}}"
    )


MODELS = {
    **{
        name: model(
            {column: declared} if isinstance(declared, str) else {"value": declared},
            {"row_count": {"count": "rows"}},
        )
        for name, (column, declared, _) in CASES.items()
    },
    **{
        name: model(
            {"kind": "text"},
            {"row_count": {"count": "rows"}, "total": {"sum": "amount", "type": type_}},
        )
        for name, (type_, _) in SUMS.items()
    },
    "ft_long": model(
        dict.fromkeys(("long", "second", "third"), "text"), {"row_count": {"count": "rows"}}
    ),
}
VALUES = {
    name: tuple(
        dict.fromkeys(
            text for column, _, texts in CASES.values() if column == name for text in texts
        )
    )
    for name in dict.fromkeys(column for column, _, _ in CASES.values())
}
ROWS = sum(map(len, VALUES.values()))


class Odd:
    """The table and its facts."""

    def __init__(self, pipeline: Audited) -> None:
        self.pipeline = pipeline

    def insert(self) -> None:
        """Insert a row of each value."""
        for name, texts in VALUES.items():
            for text in texts:
                self.pipeline.source.execute(f"insert into odd ({name}) values (%s)", text)

    def must_be(self, times: int) -> None:
        """Every value is counted so many times, and what is no value never."""
        self.pipeline.must("run", "--once")
        self.pipeline.build()
        for name, (column, declared, texts) in CASES.items():
            wanted = Counter(
                group for text in VALUES[column] if (group := texts.get(text)) for _ in range(times)
            )
            dimension = column if isinstance(declared, str) else "value"
            found = self.pipeline.source.execute(
                f"select {dimension}::text, row_count from analytics.{name} where row_count <> 0"
            )
            assert dict(found) == wanted, name
        for name, (_, refused) in SUMS.items():
            amounts = [Decimal(text) for text in VALUES["amount"] if text not in refused]
            found = self.pipeline.source.execute(f"select row_count, total from analytics.{name}")
            assert found == [((ROWS - len(refused)) * times, sum(amounts) * times)], name

    def rejected(self) -> Counter[tuple[str, str, str]]:
        """Return fact, reason and action of what was rejected, with the number of rows."""
        found = self.pipeline.source.execute(
            "select fact, reason, action, sum(case action when 'baseline' then"
            " (payload::jsonb ->> 'row_count')::bigint else 1 end)::bigint"
            " from analytics.rejected_changes group by 1, 2, 3"
        )
        return Counter({(fact, reason, action): rows for fact, reason, action, rows in found})


@pytest.fixture
def odd(cluster: Cluster, tmp_path: Path) -> Iterator[Odd]:
    with empty_database(cluster, "odd") as database:
        made = Odd(Audited(database, tmp_path, Models()))
        made.pipeline.use_project(host_project(tmp_path, MODELS))
        database.execute(TABLE)
        yield made


@pytest.mark.parametrize("who_counts", ["server"], indirect=True)
@pytest.mark.usefixtures("who_counts")
def test_what_a_seed_rejects_the_stream_rejects(odd: Odd) -> None:
    pipeline = odd.pipeline
    odd.insert()
    pipeline.must("setup")
    code, _, err = pipeline.run(job="seed")
    assert code == 0, err
    odd.must_be(1)
    seeded = odd.rejected()
    assert {action for *_, action in seeded} == {"baseline"}

    odd.insert()
    odd.must_be(2)
    added = odd.rejected() - seeded
    assert {(*each[:2], "baseline"): rows for each, rows in added.items()} == seeded
    pipeline.source.execute("delete from odd where id <= %s", ROWS)
    odd.must_be(1)
    gone = odd.rejected() - seeded - added
    assert {(*each[:2], "baseline"): rows for each, rows in gone.items()} == seeded

    # Without the constraint nobody counts anew; what came as null in the stream goes as null.
    pipeline.source.execute("alter table odd drop constraint odd_size_check")
    pipeline.source.execute("update odd set size = 'NaN' where size = 99")
    pipeline.must("run", "--once")
    for job in ("seed", "audit"):
        code, _, err = pipeline.run(job=job)
        assert (code, "size of public.odd may be NaN or infinite" in err) == (17, True), err
    pipeline.source.execute("update odd set size = 99 where size = 'NaN'")
    pipeline.source.execute("alter table odd add check (size < 1e9 and size > -1e9)")
    odd.must_be(1)
    with pipeline.follow():
        report = audit(pipeline.settings())
    assert not report.refused
    assert [each.comparison.differences for each in report.facts] == [[]] * len(MODELS)


def test_texts_that_no_index_takes_are_no_key_of_current_rows(
    cluster: Cluster, tmp_path: Path
) -> None:
    columns = dict.fromkeys(("long", "second"), "text")
    rows = (
        "{{ waltally.current_rows(table='public.odd', key=['long', 'second'],"
        f" columns={json.dumps(columns)}) }}}}"
    )
    with empty_database(cluster, "keys") as database:
        pipeline = Audited(database, tmp_path, Models())
        pipeline.use_project(host_project(tmp_path, {"odd_rows": rows}))
        database.execute(TABLE)
        database.execute("insert into odd (long) values (repeat('a', 900)), (repeat('b', 901))")
        pipeline.must("setup")
        code, _, err = pipeline.run(job="seed")
        assert code == 0, err
        database.execute("insert into odd (long) values (repeat('c', 900)), (repeat('d', 901))")
        database.execute("delete from odd where long ~ '^[ab]'")
        pipeline.must("run", "--once")
        pipeline.build()
        assert database.execute("select left(long, 1) from analytics.odd_rows") == [("c",)]
        listed = "select reason, action from analytics.rejected_changes order by commit_lsn"
        why = "the values of long, second together are longer than 1800 bytes"
        assert database.execute(listed) == [(why, "baseline"), (why, "I"), (why, "D")]


def test_a_total_that_its_type_does_not_hold_stops_one_fact_until_it_is_declared_wider(
    cluster: Cluster, tmp_path: Path
) -> None:
    def models(type_: str) -> dict[str, str]:
        total = {"total": {"sum": "amount", "type": type_}}
        rows = {"row_count": {"count": "rows"}}
        return {
            name: model({"kind": "text"}, measures)
            for name, measures in (("ft_total", total), ("ft_rows", rows))
        }

    states = "select fact_name, state, reason, remedy from cdc.plan_models(%s) order by 1"
    with empty_database(cluster, "overflow") as database:
        pipeline = Audited(database, tmp_path, Models())
        pipeline.use_project(host_project(tmp_path / "narrow", models("numeric(8, 2)")))
        database.execute(TABLE)
        database.execute("insert into odd (amount) values (999999.99)")
        pipeline.must("setup")
        code, _, err = pipeline.run(job="seed")
        assert code == 0, err
        pipeline.build()
        # The next fits, and both together do not.
        database.execute("insert into odd (amount) values (0.01)")
        pipeline.must("run", "--once")
        with pytest.raises(BuildFailed, match="numeric field overflow"):
            pipeline.build()
        rows, total = database.execute(states, pipeline.slot)
        assert rows == ("ft_rows", "follows", None, None)
        assert total[1:3] == ("failed", "numeric field overflow")
        assert database.execute("select row_count from analytics.ft_rows") == [(2,)]
        assert database.execute("select total from analytics.ft_total") == [(Decimal("999999.99"),)]

        pipeline.use_project(host_project(tmp_path / "wider", models("numeric(9, 2)")))
        assert total[3].startswith("declare a wider type for the measure")
        for command in re.findall(r"`([^`]+)`", total[3]):
            program, *words = command.split()
            if program == "loader":
                pipeline.must(*words)
            elif program == "dbt":
                pipeline.build()
            else:
                code, _, err = pipeline.run(*words[1:], job="seed")
                assert code == 0, err
        database.execute("insert into odd (amount) values (1)")
        pipeline.must("run", "--once")
        pipeline.build()
        found = database.execute(states, pipeline.slot)
        assert [each[1:] for each in found] == [("follows", None, None)] * 2
        assert database.execute("select total from analytics.ft_total") == [(Decimal(1000001),)]
        assert database.execute("select row_count from analytics.ft_rows") == [(3,)]
        assert not database.execute("select 1 from analytics.rejected_changes")
