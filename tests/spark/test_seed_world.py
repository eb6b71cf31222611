"""One seed of every kind of fact, counted by the server and by Spark: each claim reads the result.

The world is Notify's tables with odd types and odd values, numbers that JSON does not have, and
current rows. It is seeded once, and then one of its facts again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from testkit.facts import NOTIFY, column, condition, count, declare, summed
from testkit.servers import Cluster
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

    create table teams (id integer primary key, name text);
    insert into teams values (1, repeat('x', 5000)), (2, null), (-3, '');

    create table measured (kind text, size numeric, factor numeric);
    insert into measured values
        ('a', 1.5, 2), ('a', 'NaN', 2), ('a', 'Infinity', 2), ('a', 2, 'NaN'),
        ('a', 'NaN', 'NaN'), ('a', null, 7), ('a', 1, null);
"""


def live_by(*columns: tuple[str, str]) -> dict[str, Any]:
    """Declare a fact of some live notifications by these columns."""
    few = condition("notification_type", "in", "sms", "email")
    return declare("public.notifications", *columns, where=[few])


TEAMS = declare("public.teams", ("id", "integer"), kind="current_rows", key=["id"])
TEAMS["dimensions"].append(column("name", "text", nulls="count"))
FACTS = {
    "ft_measured": declare(
        "public.measured",
        ("kind", "text"),
        measures=[
            count("row_count", "rows"),
            summed("size", "size"),
            {**summed("size", "product"), "columns": ["size", "factor"]},
        ],
    ),
    "teams": TEAMS,
    # Facts of one table: the places of ids and texts differ, and so does the number of dimensions.
    "ft_by_type": live_by(("notification_type", "text")),
    "ft_by_service": live_by(("service_id", "uuid"), ("notification_type", "text")),
    "ft_all": declare("public.notifications"),
}


@dataclass
class World:
    """The source, what its tables hold, and what the seed has said and stored of them."""

    source: Source
    who_counts: str
    expected: Counts
    said: dict[str, Any]
    progress: str
    baselines: Sequence[tuple[str, str, str]]

    def of(self, fact: str) -> dict[str, Any]:
        found: dict[str, Any] = self.said["facts"][fact]
        return found

    def rejections(self, fact: str) -> dict[str, int]:
        return {each["reason"]: each["row_count"] for each in self.of(fact)["rejections"]}


@pytest.fixture(scope="module", params=["server", "Spark"])
def world(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[World]:
    with (
        notify_source(cluster) as source,
        counted_by(request.param),
    ):
        source.fill()
        history = source.recount()[TABLES[1]]
        source.execute(ODD)
        for name, declaration in FACTS.items():
            source.register(declaration, name)
        expected = {TABLES[0]: source.recount()[TABLES[0]], TABLES[1]: history}
        code, out, err = source.seed("--json")
        assert code == 0, err
        yield World(
            source,
            request.param,
            expected,
            json.loads(out),
            err,
            source.execute(BASELINES),
        )


def test_what_belongs_to_a_group_is_counted_in_it(world: World) -> None:
    """Also under an id that is text in one of the tables, and beside what is refused."""
    assert all(world.expected.values())
    found = world.source.baseline()
    assert found == world.expected
    assert any(str(group[3]) == "sent".ljust(20) for group in found[TABLES[0]])


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


def test_what_json_has_no_number_for_adds_nothing(world: World) -> None:
    assert world.rejections("ft_measured") == {}
    [table] = world.of("ft_measured")["tables"].values()
    assert table["not_finite"] == {"size": 3, "factor": 2}
    numbers = [Decimal(7), Decimal("4.5"), Decimal(3)]
    assert world.source.groups("ft_measured") == {("rows", "a"): numbers}


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
    for fact, columns, where in (
        ("ft_by_type", kind, "true"),
        ("ft_by_service", f"service_id::text, {kind}", "service_id is not null"),
    ):
        rows = world.source.execute(counted.format(columns, where, columns))
        assert world.source.groups(fact) == {("rows", *row[:-1]): [row[-1]] for row in rows}
    every_row = world.source.value("select count(*) from notifications")
    assert world.source.groups("ft_all") == {("rows",): [every_row]}


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
    assert source.execute(slots, source.name) == []
    assert not source.incoming_tables()


def test_a_seed_of_some_facts_is_the_same_and_touches_no_other(world: World) -> None:
    source, seeded = world.source, ("ft_service_stats", "ft_measured")
    before = source.groups("ft_service_stats")
    source.execute("delete from cdc.baseline_group where fact_name = 'ft_service_stats'")
    flags = [word for fact in seeded for word in ("--fact", fact)]
    out = source.must_seed(*flags, "--forget-purged")
    assert source.groups("ft_service_stats") == before
    kept = {each for each in world.baselines if each[0] not in seeded}
    changed = set(source.execute(BASELINES)) - kept
    assert len(changed) == 2 and not changed & set(world.baselines)
    # What a person reads of it.
    rows = source.value(f"select count(*) from notifications where {LEFT_OUT}")
    assert f"{plural(rows, 'row')} of public.notifications left out: a dimension is null" in out
    assert "1 row of public.notification_history cannot be counted" in out
    assert "3 values are NaN or infinite, so null, in size of public.measured" in out
