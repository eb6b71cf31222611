"""One seed of every kind of fact, counted by the server and by Spark: each claim reads the result.

The world is Notify's tables with odd types and odd values, a shop with sums, days and conditions,
and small tables with one oddity each. It is seeded once, and then one of its facts again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from testkit.facts import NOTIFY, column, declare
from testkit.servers import Cluster
from tests.spark.declared import ORDERS, Shop, recounted, total
from tests.spark.support import PARTS, TABLES, Counts, Source, counted_by, notify_source
from waltally.units import plural

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")
LEFT_OUT = f"num_nulls({', '.join(DIMENSIONS)}) > 0"
BASELINES = "select fact_name, baseline_id, snapshot_lsn::text from cdc.baseline order by 1"

ODD = """
    -- Blanks of a char(n) count, and a cast that somebody made does not.
    alter table notifications alter notification_status type char(20);
    create function loud(notification_type) returns text language sql as $$ select 'LOUD' $$;
    create cast (notification_type as text) with function loud(notification_type);
    -- An id that is text in one of the tables, some in upper case, as an older schema may have it.
    alter table notification_history drop constraint notification_history_service_id_fkey;
    alter table notification_history alter service_id type text using
        case when notification_status = 'sent' then upper(service_id::text)
        else service_id::text end;
    insert into notification_history (
        id, created_at, service_id, template_id, notification_type, notification_status
    )
    select gen_random_uuid(), now(), coalesce(odd.service_id, templates.service_id::text), id,
        'sms', odd.status
    from templates, (values
        (null, repeat('x', 1001)), (null, repeat('x', 5000)), ('sixteen letters.', 'sent')
    ) as odd (service_id, status)
    where id = (select min(id::text)::uuid from templates);

    create table paid (
        amount numeric check (amount between -9 and 99), kind text default 'a'
    );
    insert into paid (amount) values (12.50), (-2.5), (null), (0);
    create table teams (id integer primary key, name text);
    insert into teams values (1, repeat('x', 5000)), (2, null), (-3, '');

    create domain anything as numeric;
    create table unfit (
        id integer, small text default '7', day text default '2026-02-28',
        amount anything default 1, flag text default 'true',
        at timestamp default '2026-03-29 00:30', label text default 'a',
        is_counted boolean default true, more text default 'm'
    );
    insert into unfit (amount) values (1.5), ('NaN'), ('Infinity'), (1.505), (1e10), (-1e10);
    insert into unfit (small) values ('40000');
    insert into unfit (day) values ('2026-02-30');
    insert into unfit (flag) values ('yes');
    insert into unfit (at) values ('infinity'), ('0044-03-15 12:00 BC');
    insert into unfit (label) values (repeat('ü', 501));
    insert into unfit (amount, label, more) values
        (0, repeat('ü', 500), repeat('x', 1000)), (0, repeat('ü', 400), repeat('x', 1000));
    insert into unfit (small, day, amount, flag, at, label)
    values (null, 'x', 'NaN', 'x', 'infinity', repeat('ü', 501));
    insert into unfit (small, amount, is_counted) values ('x', 'NaN', false), ('x', 'NaN', null);
"""
UNFIT_REASONS = {
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


def total_of(amount: str, type_: str) -> list[dict[str, Any]]:
    measure = {"name": amount, "kind": "sum", "columns": [amount], "of": ["rows"], "where": []}
    return [{**measure, "type": type_}]


def listed(name: str, *values: str) -> dict[str, Any]:
    return {"column": name, "test": "in", "values": list(values), "is_null": None}


def unfit() -> dict[str, Any]:
    names = ("small", "day", "flag", "label", "more")
    types = ("smallint", "date", "boolean", "text", "text")
    declaration = declare(
        "public.unfit",
        *zip(names, types, strict=True),
        where=[listed("is_counted", "true")],
        measures=total_of("amount", "numeric(12, 2)"),
    )
    zones = {"timezone": "Europe/London", "column_timezone": "UTC"}
    placed = column("placed", "date", kind="period", unit="day", column="at", **zones)
    declaration["dimensions"].append(placed)
    return declaration


def live_by(*columns: tuple[str, str]) -> dict[str, Any]:
    """Declare a fact of some live notifications by these columns."""
    condition = listed("notification_type", "sms", "email")
    return declare("public.notifications", *columns, where=[condition])


TEAMS = declare("public.teams", ("id", "integer"), kind="current_rows", key=["id"])
TEAMS["dimensions"].append(column("name", "text", nulls="count"))
FACTS = {
    "ft_orders": ORDERS,
    "ft_paid": declare("public.paid", ("kind", "text"), measures=total_of("amount", "numeric")),
    "teams": TEAMS,
    "ft_unfit": unfit(),
    # Facts of one table: the places of ids and texts differ, and so does the number of dimensions.
    "ft_by_type": live_by(("notification_type", "text")),
    "ft_by_service": live_by(("service_id", "uuid"), ("notification_type", "text")),
}


@dataclass
class World:
    """The source, what its tables hold, and what the seed has said and stored of them."""

    source: Source
    who_counts: str
    shop: Shop
    expected: Counts
    said: dict[str, Any]
    progress: str
    baselines: Sequence[tuple[str, str, str]]
    streamed: set[tuple[str | None, ...]] = field(default_factory=set)

    def of(self, fact: str) -> dict[str, Any]:
        found: dict[str, Any] = self.said["facts"][fact]
        return found

    def rejections(self, fact: str) -> dict[str, int]:
        return {each["reason"]: each["row_count"] for each in self.of(fact)["rejections"]}


@pytest.fixture(scope="module", params=["server", "Spark"])
def world(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[World]:
    with (
        notify_source(cluster) as source,
        source.session() as session,
        counted_by(request.param),
    ):
        source.fill()
        history = source.recount()[TABLES[1]]
        shop = Shop(session, seed=5)
        shop.create()
        shop.write(150, truncates=False)
        source.execute("update orders set shop_id = null where id < 4")
        source.execute(ODD)
        for name, declaration in FACTS.items():
            source.register(declaration, name)
        source.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")
        expected = {TABLES[0]: source.recount()[TABLES[0]], TABLES[1]: history}
        code, out, err = source.seed("--json")
        assert code == 0, err
        yield World(
            source,
            request.param,
            shop,
            expected,
            json.loads(out),
            err,
            source.execute(BASELINES),
            streamed_groups(source),
        )


def streamed_groups(source: Source) -> set[tuple[str | None, ...]]:
    """Return the groups that the stream takes rows away from when all live ones are updated."""
    source.execute("update notifications set reference = 'touched'")
    found = set()
    for (payload,) in source.execute(
        "select data from pg_logical_slot_peek_changes('truth', null, null,"
        " 'format-version', '2', 'include-transaction', '0', 'add-tables',"
        " 'public.notifications')"
    ):
        old = {each["name"]: each["value"] for each in json.loads(payload)["identity"]}
        found.add(tuple(old[name] for name in DIMENSIONS))
    return found


def test_what_belongs_to_a_group_is_counted_in_it(world: World) -> None:
    """Also under an id that is text in one of the tables, and beside what is refused."""
    assert all(world.expected.values())
    assert world.source.baseline() == world.expected


def test_values_are_spelled_as_the_stream_spells_them(world: World) -> None:
    counted = {group for group in world.streamed if None not in group}
    assert counted == set(world.source.baseline()[TABLES[0]])
    assert any(str(group[3]) == "sent".ljust(20) for group in counted)


def test_rows_with_a_null_dimension_are_left_out_and_told(world: World) -> None:
    null_rows = {
        table: world.source.value(f"select count(*) from {table} where {LEFT_OUT}")
        for table in TABLES
    }
    stored = world.source.value(
        "select left_out from cdc.baseline where fact_name = 'ft_service_stats'"
    )
    assert stored == {PARTS[table]: rows for table, rows in null_rows.items()}
    assert all(null_rows.values())


def test_what_the_stream_could_not_count_is_listed_with_an_example(world: World) -> None:
    too_long = "the value of notification_status is longer than 1000 bytes"
    no_uuid = "the value of service_id is not a uuid"
    assert world.rejections("ft_service_stats") == {too_long: 2, no_uuid: 1}
    assert world.source.execute(
        "select part, reason, row_count, length(example ->> 'notification_status'),"
        " example ->> 'service_id' = 'sixteen letters.' from cdc.baseline_rejection"
        " where fact_name = 'ft_service_stats' order by 2"
    ) == [("archived", too_long, 2, 100, False), ("archived", no_uuid, 1, 4, True)]


def test_sums_days_conditions_and_nulls_are_as_the_source_counts_them(world: World) -> None:
    expected = recounted(world.shop, world.source.slot)
    assert total(world.source.groups("ft_orders")) == expected
    assert {group[0] for group in expected} == {world.source.slot}
    assert any(None in group for group in expected), "null is a group"
    assert world.rejections("ft_orders") == {}
    assert any(table["left_out"] for table in world.of("ft_orders")["tables"].values())


def test_a_sum_has_as_many_decimals_as_the_server_gives_it(world: World) -> None:
    stored = world.source.execute(
        "select dimensions, measures[1]::text from cdc.baseline_group where fact_name = 'ft_paid'"
    )
    assert stored == [(["a"], world.source.value("select sum(amount)::text from paid"))]


def test_a_value_that_its_type_does_not_take_is_listed_with_its_reason(world: World) -> None:
    assert world.rejections("ft_unfit") == UNFIT_REASONS
    decimals = "the value of amount has more than 2 decimals"
    example = "select example ->> 'value' from cdc.baseline_rejection where reason = %s"
    assert world.source.value(example, decimals) == "1.505"
    day = "2026-03-29"
    assert world.source.groups("ft_unfit") == {
        ("rows", "7", "2026-02-28", "true", "a", "m", day): [Decimal("1.5")],
        ("rows", "7", "2026-02-28", "true", "ü" * 400, "x" * 1000, day): [Decimal(0)],
    }
    assert world.of("ft_unfit")["tables"]["rows"]["left_out"] == 1


def test_current_rows_are_groups_of_one_row_with_texts_of_any_length(world: World) -> None:
    assert world.source.groups("teams") == {
        ("rows", "1", "x" * 5000): [1],
        ("rows", "2", None): [1],
        ("rows", "-3", ""): [1],
    }


def test_facts_of_one_table_are_each_what_it_declares(world: World) -> None:
    counted = (
        "select {}, count(*) from notifications where notification_type in ('sms', 'email')"
        " and {} group by {}"
    )
    kind = "format('%s', notification_type)"
    for fact, columns, condition in (
        ("ft_by_type", kind, "true"),
        ("ft_by_service", f"service_id::text, {kind}", "service_id is not null"),
    ):
        rows = world.source.execute(counted.format(columns, condition, columns))
        assert world.source.groups(fact) == {("rows", *row[:-1]): [row[-1]] for row in rows}


def test_each_table_is_read_once(world: World) -> None:
    tables = {part["table"] for each in (NOTIFY, *FACTS.values()) for part in each["tables"]}
    rows = sum(world.source.value(f'select count(*) from "{table}"') for table in tables)
    if world.who_counts == "Spark":
        assert f"{rows:,} rows read" in world.progress


def test_all_facts_are_stored_at_one_position_and_nothing_else_is_left(world: World) -> None:
    source, said = world.source, world.said
    assert {name for name, *_ in world.baselines} == {"ft_service_stats", *FACTS}
    assert {tuple(each[1:]) for each in world.baselines} == {
        (said["baseline_id"], said["snapshot_lsn"])
    }
    slots = "select slot_name from pg_replication_slots where database = %s"
    assert source.execute(slots, source.name) == [("truth",)]
    assert not source.incoming_tables()


def test_a_seed_of_one_fact_is_the_same_and_touches_no_other(world: World) -> None:
    source = world.source
    before = source.groups("ft_service_stats")
    source.execute("delete from cdc.baseline_group where fact_name = 'ft_service_stats'")
    out = source.must_seed("--fact", "ft_service_stats")
    assert source.groups("ft_service_stats") == before
    kept = [each for each in world.baselines if each[0] != "ft_service_stats"]
    changed = set(source.execute(BASELINES)) - set(kept)
    assert len(changed) == 1 and not changed & set(world.baselines)
    # What a person reads of it.
    rows = source.value(f"select count(*) from notifications where {LEFT_OUT}")
    assert f"{plural(rows, 'row')} of public.notifications left out: a dimension is null" in out
    assert "1 row of public.notification_history cannot be counted" in out
