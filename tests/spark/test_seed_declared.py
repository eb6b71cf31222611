"""A baseline is what PostgreSQL's own count of the source gives, whatever the fact declares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal
from typing import Any

import pytest
from common.errors import CountingFailed
from seeding import job, store
from seeding.job import seed

from testkit.facts import column, declare
from tests.spark.declared import ORDERS, Shop
from tests.spark.support import Source
from tests.spark.test_seed_refusals import settings

Group = tuple[Any, ...]

EXACT = Context(prec=1000)
SHOP_TABLES = ("orders", "Old Orders", "refunds")


BOTH_WAYS = pytest.mark.usefixtures("who_counts")
"""The server counts what is alike, or Spark does."""


def total(stored: dict[Group, list[Decimal]]) -> dict[Group, list[Decimal]]:
    """Add up what the parts of a fact have of each group."""
    found: dict[Group, list[Decimal]] = {}
    for (_, *dimensions), measures in stored.items():
        group = tuple(dimensions)
        before = found.get(group, [Decimal(0)] * len(measures))
        found[group] = [EXACT.add(*each) for each in zip(before, measures, strict=True)]
    return found


def recounted(shop: Shop, slot: str, archived: str = '"Old Orders"') -> dict[Group, list[Decimal]]:
    counted = shop.recount(slot, archived)
    return {group: list(map(Decimal, measures)) for group, measures in counted.items()}


@contextmanager
def a_shop(source: Source, transactions: int = 150, seed: int = 5) -> Iterator[Shop]:
    """Fill the tables of ft_orders and register it alone."""
    with source.connect() as connection:
        shop = Shop(connection, seed)
        shop.create()
        shop.write(transactions, truncates=False)
        connection.execute("update orders set shop_id = null where id < 4")
        source.ask("delete from cdc.fact returning 1")
        source.register(ORDERS, "ft_orders")
        yield shop


@BOTH_WAYS
def test_sums_days_conditions_and_nulls_are_as_the_source_counts_them(source: Source) -> None:
    with a_shop(source) as shop:
        code, out, err = source.seed("--json")
        assert code == 0, err
        expected = recounted(shop, source.slot)
    assert total(source.groups("ft_orders")) == expected
    assert {group[0] for group in expected} == {source.slot}
    assert any(None in group for group in expected), "null is a group"
    summary = json.loads(out)["facts"]["ft_orders"]
    [(left_out,)] = source.ask("select left_out from cdc.baseline")
    assert left_out == {name: each["left_out"] for name, each in summary["tables"].items()}
    assert any(left_out.values())
    assert summary["rejections"] == []


@BOTH_WAYS
def test_a_sum_has_as_many_decimals_as_the_server_gives_it(source: Source) -> None:
    with source.connect() as connection:
        connection.execute(
            "create table paid (amount numeric check (amount between -9 and 99),"
            " kind text default 'a')"
        )
        connection.execute("insert into paid (amount) values (12.50), (-2.5), (null), (0)")
    amount = {
        "name": "amount",
        "kind": "sum",
        "columns": ["amount"],
        "of": ["rows"],
        "type": "numeric",
        "where": [],
    }
    source.register(declare("public.paid", ("kind", "text"), measures=[amount]), "ft_paid")
    code, _, err = source.seed("--fact", "ft_paid")
    assert code == 0, err
    assert source.ask(
        "select dimensions::text, measures[1]::text from cdc.baseline_group"
        " where fact_name = 'ft_paid'"
    ) == [("{a}", source.ask("select sum(amount)::text from paid")[0][0])]


UNFIT = """
    create domain anything as numeric;
    create table unfit (
        id integer, small text, day text, amount anything, flag text, at timestamp, label text,
        is_counted boolean default true, more text default 'm'
    );
    insert into unfit (id, small, day, amount, flag, at, label) values
        (1, '7', '2026-02-28', 1.5, 'true', '2026-03-29 00:30', 'a'),
        (2, '40000', '2026-02-28', 1, 'true', '2026-03-29 00:30', 'a'),
        (3, '7', '2026-02-30', 1, 'true', '2026-03-29 00:30', 'a'),
        (4, '7', '2026-02-28', 'NaN', 'true', '2026-03-29 00:30', 'a'),
        (5, '7', '2026-02-28', 'Infinity', 'true', '2026-03-29 00:30', 'a'),
        (6, '7', '2026-02-28', 1.505, 'true', '2026-03-29 00:30', 'a'),
        (7, '7', '2026-02-28', 1, 'yes', '2026-03-29 00:30', 'a'),
        (8, '7', '2026-02-28', 1, 'true', 'infinity', 'a'),
        (9, '7', '2026-02-28', 1, 'true', '0044-03-15 12:00 BC', 'a'),
        (10, '7', '2026-02-28', 1, 'true', '2026-03-29 00:30', repeat('ü', 501)),
        (12, '7', '2026-02-28', 1e10, 'true', '2026-03-29 00:30', 'a'),
        (13, '7', '2026-02-28', -1e10, 'true', '2026-03-29 00:30', 'a'),
        (14, '7', '2026-02-28', 0, 'true', '2026-03-29 00:30', repeat('ü', 500)),
        (15, '7', '2026-02-28', 0, 'true', '2026-03-29 00:30', repeat('ü', 400)),
        (11, null, 'x', 'NaN', 'x', 'infinity', repeat('ü', 501));
    update unfit set more = repeat('x', 1000) where id in (14, 15);
    insert into unfit select id + 100, 'x', 'x', 'NaN', 'x', 'infinity', 'x', state
        from unfit, (values (false), (null)) as uncounted (state);
"""


@BOTH_WAYS
def test_a_value_that_its_type_does_not_take_is_listed_with_its_reason(source: Source) -> None:
    with source.connect() as connection:
        connection.execute(UNFIT)
    zones = {"timezone": "Europe/London", "column_timezone": "UTC"}
    declaration = declare(
        "public.unfit",
        ("small", "smallint"),
        ("day", "date"),
        ("flag", "boolean"),
        ("label", "text"),
        ("more", "text"),
        where=[{"column": "is_counted", "test": "in", "values": ["true"], "is_null": None}],
        measures=[
            {
                "name": "amount",
                "kind": "sum",
                "columns": ["amount"],
                "of": ["rows"],
                "type": "numeric(12, 2)",
                "where": [],
            }
        ],
    )
    declaration["dimensions"].append(
        column("placed", "date", kind="period", unit="day", column="at", **zones)
    )
    source.register(declaration, "ft_unfit")
    code, out, err = source.seed("--fact", "ft_unfit", "--json")
    assert code == 0, err
    rejections = json.loads(out)["facts"]["ft_unfit"]["rejections"]
    assert {each["reason"]: each["row_count"] for each in rejections} == {
        "the value of small is not of type smallint": 1,
        "the value of day is not a date of the years 1 to 9999": 1,
        "the value of flag is not of type boolean": 1,
        "the value of label is longer than 1000 bytes": 1,
        "the value of at is not a date of the years 1 to 9999": 2,
        "the value of amount is not a number": 2,
        "the value of amount has more than 2 decimals": 1,
        "the value of amount does not fit numeric(12, 2)": 2,
        "the values of label, more together are longer than 1800 bytes": 1,
    }
    listed = dict(source.ask("select reason, example ->> 'value' from cdc.baseline_rejection"))
    assert listed["the value of amount has more than 2 decimals"] == "1.505"
    assert source.groups("ft_unfit") == {
        ("rows", "7", "2026-02-28", "true", "a", "m", "2026-03-29"): [Decimal("1.5")],
        ("rows", "7", "2026-02-28", "true", "ü" * 400, "x" * 1000, "2026-03-29"): [Decimal(0)],
    }
    assert source.ask("select left_out from cdc.baseline") == [({"rows": 1},)]


def live_by(*names: str) -> dict[str, Any]:
    """Declare a fact of live notifications by these columns, sent and failed ones alone."""
    types = {"service_id": "uuid"}
    return declare(
        "public.notifications",
        *((name, types.get(name, "text")) for name in names),
        where=[
            {
                "column": "notification_status",
                "test": "in",
                "values": ["sent", "failed"],
                "is_null": None,
            }
        ],
    )


@BOTH_WAYS
def test_facts_in_one_pass_are_as_each_by_itself(source: Source) -> None:
    source.fill()
    # The places of ids and texts differ, and so do conditions and the number of dimensions.
    source.register(live_by("notification_type"), "ft_by_type")
    source.register(live_by("notification_status", "service_id"), "ft_by_service")
    names = ("ft_by_service", "ft_by_type", "ft_service_stats")
    code, _, err = source.seed()
    assert code == 0, err
    assert source.baseline() == source.recount()
    together = {name: source.groups(name) for name in names}
    assert all(together.values())
    assert len(set(source.ask("select snapshot_lsn from cdc.baseline"))) == 1
    for name in names:
        with source.connect() as connection:
            connection.execute("delete from cdc.baseline_group where fact_name = %s", (name,))
        code, _, err = source.seed("--fact", name)
        assert code == 0, err
        assert source.groups(name) == together[name]
    assert (
        sum(rows for [rows] in together["ft_by_type"].values())
        == (
            source.ask(
                "select count(*) from notifications where notification_status in ('sent', 'failed')"
            )[0][0]
        )
    )


def test_each_table_is_read_once(source: Source, capfd: pytest.CaptureFixture[str]) -> None:
    source.fill()
    source.register(live_by("notification_type"), "ft_by_type")
    source.register(live_by("service_id"), "ft_by_service")
    [(rows,)] = source.ask(
        "select (select count(*) from notifications) + (select count(*) from notification_history)"
    )
    code, _, err = source.seed()
    assert code == 0, err
    assert f"{rows:,} rows read" in err


def test_a_seed_of_one_fact_touches_no_other(source: Source) -> None:
    source.fill()
    source.register(live_by("notification_type"), "ft_by_type")
    source.previous_seed()
    with source.connect() as connection:
        connection.execute("delete from cdc.baseline_group where fact_name = 'ft_by_type'")
    whole = "select fact_name, baseline_id from cdc.baseline order by fact_name"
    before = dict(source.ask(whole))
    code, _, err = source.seed("--fact", "ft_by_type")
    assert code == 0, err
    after = dict(source.ask(whole))
    assert after["ft_service_stats"] == before["ft_service_stats"]
    assert after["ft_by_type"] != before["ft_by_type"]
    assert [*source.groups("ft_service_stats").values()] == [[7, 0]]
    assert source.groups("ft_by_type")


def test_an_unknown_fact_is_refused_with_the_known_ones(source: Source) -> None:
    code, _, err = source.seed("--fact", "ft_nothing")
    assert (code, "ft_service_stats" in err) == (2, True), err


def test_a_declaration_that_changes_while_it_is_counted_is_refused(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.fill()
    source.previous_seed()
    counting = job.count

    def count(*arguments: Any) -> store.Counted:
        counted = counting(*arguments)
        source.register(live_by("notification_type"), "ft_service_stats")
        return counted

    monkeypatch.setattr(job, "count", count)
    with pytest.raises(CountingFailed, match="declaration of ft_service_stats") as caught:
        seed(settings(source))
    assert caught.value.remedy == "run the seed again"
    assert source.has_previous_seed()
    monkeypatch.undo()


def test_current_rows_are_groups_of_one_row_with_texts_of_any_length(source: Source) -> None:
    with source.connect() as connection:
        connection.execute("create table teams (id integer primary key, name text)")
        connection.execute("insert into teams values (1, repeat('x', 5000)), (2, null), (-3, '')")
    declaration = declare(
        "public.teams",
        ("id", "integer"),
        kind="current_rows",
        key=["id"],
    )
    declaration["dimensions"].append(column("name", "text", nulls="count"))
    source.register(declaration, "teams")
    code, _, err = source.seed("--fact", "teams")
    assert code == 0, err
    assert source.groups("teams") == {
        ("rows", "1", "x" * 5000): [1],
        ("rows", "2", None): [1],
        ("rows", "-3", ""): [1],
    }
