"""Spark's rules on what the plugin really prints come to what PostgreSQL's own count says."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from deltas import sums
from deltas.rules import FactChanges
from pyspark.sql import DataFrame, SparkSession
from replaying.result import as_rows

from loader.capture import wal2json
from testkit.databases import empty_database
from testkit.facts import column
from testkit.servers import Cluster
from tests.spark.declared import Shop, orders
from waltally.database import Connection
from waltally.errors import LoaderError
from waltally.facts import Fact, parse
from waltally.session_settings import _VALUES
from waltally.tables import Table

SLOT = "east"
SCHEMA = "commit_lsn long, ordinal long, action string, payload string"
PEEK = (
    "select xid::text::bigint, data from pg_logical_slot_peek_changes('recounted', null, null,"
    " 'format-version', '2', 'include-transaction', '0', 'include-types', '0')"
)


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    with empty_database(cluster, "recounted") as database:
        for setting, value in (_VALUES | {"search_path": "public"}).items():
            database.execute("select set_config(%s, %s, false)", setting, value)
        yield database.connection


def follow(connection: Connection) -> None:
    connection.ask("select pg_create_logical_replication_slot('recounted', 'wal2json')")


def logged(spark: SparkSession, connection: Connection) -> DataFrame:
    """The change log of everything since `follow`; a transaction's place is its position."""
    places: dict[int, int] = {}
    found = []
    for ordinal, (xid, text) in enumerate(connection.ask(PEEK), 1):
        place = places.setdefault(xid, len(places))
        # Rows without a letter are read in another way.
        letter = wal2json.action(text.encode()).decode() if ordinal % 3 else None
        found.append((place, ordinal, letter, text))
    return spark.createDataFrame(found, SCHEMA).repartition(2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_any_history_comes_to_what_a_recount_says(
    spark: SparkSession, connection: Connection, seed: int
) -> None:
    shop, fact = Shop(connection, seed), orders()
    shop.create()
    follow(connection)
    shop.write(150)
    log = logged(spark, connection).cache()
    changes = FactChanges(log, fact, SLOT)
    found = sums.summed(changes.deltas(), fact, "dimensions").collect()
    counted = {tuple(row["dimensions"]): row["sums"] for row in found}
    wanted = {
        group: numbers for group, numbers in shop.recount(SLOT).items() if set(numbers) != {"0"}
    }
    assert counted == wanted
    assert wanted and log.count() > 150
    assert changes.rejected.count() == 0

    # A replay is the same, wherever its baseline is from, and it knows the ids.
    middle = "commit_lsn < 75"
    baseline = FactChanges(log.where(middle), fact, SLOT).deltas()
    later = FactChanges(log.where(f"not {middle}"), fact, SLOT)
    replayed = later.applied_to(baseline, "dimensions")
    ids, rows = shop.ids(SLOT), as_rows(replayed, fact).collect()
    assert {tuple(row[1:8]) for row in rows} == wanted.keys()
    for row in rows:
        group = tuple(row[1:8])
        assert row["id"] == ids[group]
        assert [str(row["placed_count"]), str(row["archived_count"])] == wanted[group][:2]
        assert row["amount"] == wanted[group][2]
        assert Decimal(wanted[group][3]) == row["refunded"]

    # What was purged is what the deletes of the archive say.
    purged = changes.archived_deletes().collect()
    if "archived" not in changes.truncates:
        stored = shop.recount(SLOT, '"Old Orders"')
        gone = {tuple(row["dimensions"]): row["sums"] for row in purged}
        assert gone
        for group, numbers in gone.items():
            left = int(stored[group][1]) if group in stored else 0
            assert int(wanted[group][1]) == left + int(numbers[1])


SERVICES = """
    create table services (
        region text, id integer, name text, body text, is_open boolean, seen timestamptz,
        primary key (region, id)
    );
    alter table services alter body set storage external;
"""
BODY = "y" * 3000
NAMES = ("region", "id", "name", "body", "is_open", "seen")


def services() -> Fact:
    types = ("text", "integer", "text", "text", "boolean", "timestamptz")
    return parse(
        "services",
        Table("analytics", "services"),
        {
            "version": 1,
            "kind": "current_rows",
            "tables": [
                {
                    "name": "rows",
                    "schema": "public",
                    "table": "services",
                    "deletes": "count",
                    "columns": {},
                }
            ],
            "dimensions": [
                column(name, type_, nulls="leave_out" if name in ("region", "id") else "count")
                for name, type_ in zip(NAMES, types, strict=True)
            ],
            "measures": [
                {
                    "name": "row_count",
                    "kind": "count",
                    "columns": [],
                    "of": ["rows"],
                    "type": "bigint",
                    "where": [],
                }
            ],
            "where": [],
            "key": ["region", "id"],
        },
    )


def write_services(connection: Connection, dice: Random, transactions: int) -> None:
    kinds = (
        "insert into services select 'r', coalesce(max(id), 0) + 1, 'n', repeat('y', 3000), true,"
        " '2026-03-29 00:30:00.10+00' from services",
        "insert into services select 'r', coalesce(max(id), 0) + 1, null, null, null, null"
        " from services",
        # The body is stored out of line and does not change.
        "update services set name = name || 'é\"' where id % 3 = {n}",
        "update services set id = id + 1000 where id in (select id from services where id < 1000"
        " order by random() limit 1)",
        "update services set region = region || 's', is_open = not is_open where id % 5 = {n}"
        " and length(region) < 20",
        "update services set body = repeat('z', 2500 + {n}) where id % 7 = {n}",
        "delete from services where id % 11 = {n}",
        "truncate services",
    )
    for _ in range(transactions):
        with connection.transaction():
            for kind in dice.choices(kinds, (8, 2, 3, 3, 2, 2, 1, 0.3), k=dice.randint(1, 3)):
                # A key that is there already: the statement alone is rolled back.
                connection.ask("savepoint one")
                try:
                    connection.ask(kind.format(n=dice.randint(0, 4)))
                except LoaderError:
                    connection.ask("rollback to one")


def stored_services(connection: Connection) -> set[tuple[Any, ...]]:
    columns = ", ".join(f"{name}::text" for name in NAMES)
    return set(connection.ask(f"select {columns} from services"))


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))]
)
def test_current_rows_follow_the_table_by_its_key_alone(
    spark: SparkSession, connection: Connection, seed: int
) -> None:
    dice, fact = Random(seed), services()
    connection.ask(SERVICES)
    write_services(connection, dice, 40)
    before = sorted(stored_services(connection))
    base = spark.createDataFrame(
        [(list(row), ["1"]) for row in before], "dimensions array<string>, sums array<string>"
    )
    follow(connection)
    write_services(connection, dice, 60)
    log = logged(spark, connection)
    changes = FactChanges(log, fact, SLOT)
    found = changes.applied_to(base, "dimensions").collect()
    assert {tuple(row["dimensions"]) for row in found} == stored_services(connection)
    assert len(found) == len(stored_services(connection))
    assert {tuple(row["sums"]) for row in found} <= {("1",)}
    assert BODY in {row["dimensions"][3] for row in found} or not found
    assert changes.rejected.count() == 0
