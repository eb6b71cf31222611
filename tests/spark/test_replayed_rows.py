"""Current rows on Spark, from what the plugin really prints, are the table's rows."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from common import sums
from common.gathering import Gathered
from deltas.gathered import Later, find_truncates, task_of, truncates_of

from loader.capture import wal2json
from testkit.databases import empty_database
from testkit.facts import column, declare
from testkit.servers import Cluster
from waltally.database import Connection
from waltally.errors import LoaderError
from waltally.facts import Fact, parse
from waltally.session_settings import _VALUES
from waltally.tables import Table

PEEK = (
    "select xid::text::bigint, data from pg_logical_slot_peek_changes('current', null, null,"
    " 'format-version', '2', 'include-transaction', '0', 'include-types', '0')"
)


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    with empty_database(cluster, "current") as database:
        for setting, value in (_VALUES | {"search_path": "public"}).items():
            database.execute("select set_config(%s, %s, false)", setting, value)
        yield database.connection


def follow(connection: Connection) -> None:
    connection.ask("select pg_create_logical_replication_slot('current', 'wal2json')")


def logged(connection: Connection) -> list[pa.RecordBatch]:
    """The change log of everything since `follow`; a transaction's place is its position."""
    places: dict[int, int] = {}
    found = []
    for ordinal, (xid, text) in enumerate(connection.ask(PEEK), 1):
        place = places.setdefault(xid, len(places))
        # Rows without a letter are read in another way.
        letter = wal2json.action(text.encode()).decode() if ordinal % 3 else None
        found.append((place, ordinal, letter, text))
    columns = zip(*found, strict=True)
    types = (pa.int64(), pa.int64(), pa.string(), pa.string())
    arrays = [pa.array(each, type_) for each, type_ in zip(columns, types, strict=True)]
    names = ["commit_lsn", "ordinal", "action", "payload"]
    whole = pa.RecordBatch.from_arrays(arrays, names)
    # Two tasks, which the changes do not reach in their order.
    return [whole.slice(len(found) // 2), whole.slice(0, len(found) // 2)]


SERVICES = """
    create table services (
        region text, id integer, name text, body text, is_open boolean, seen timestamptz,
        primary key (region, id)
    );
    alter table services alter body set storage external;
"""
SLOT = "east"
BODY = "y" * 3000
NAMES = ("region", "id", "name", "body", "is_open", "seen")


def services() -> Fact:
    types = ("text", "integer", "text", "text", "boolean", "timestamptz")
    key = ["region", "id"]
    declared = declare("public.services", kind="current_rows", key=key)
    declared["dimensions"] = [
        column(name, type_, nulls="leave_out" if name in key else "count")
        for name, type_ in zip(NAMES, types, strict=True)
    ]
    return parse("services", Table("analytics", "services"), declared)


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


# A history of the first seed has values that only the row before the log has.
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2))])
def test_current_rows_follow_the_table_by_its_key_alone(connection: Connection, seed: int) -> None:
    dice, fact = Random(seed), services()
    connection.ask(SERVICES)
    write_services(connection, dice, 40)
    before = {row: [1] for row in stored_services(connection)}
    base = sums.groups_of(before, fact)
    follow(connection)
    write_services(connection, dice, 60)
    log = logged(connection)
    emptied = Gathered([each for batch in log for each in find_truncates(iter([batch]))])
    truncates = truncates_of(emptied)
    task = task_of([fact], SLOT, truncates, 1)
    changes = Later(
        fact, SLOT, 0, Gathered([each for batch in log for each in task(iter([batch]))]), truncates
    )
    tables = changes.applied([base])
    found = [row for each in tables for row in rows_of(each, fact)]
    assert set(found) == stored_services(connection)
    assert len(found) == len(set(found))
    assert {each["sum_0"] for table in tables for each in table.to_pylist()} <= {1}
    assert BODY in {row[3] for row in found} or not found
    assert changes.rejected.count == 0


def rows_of(table: pa.Table, fact: Fact) -> list[tuple[Any, ...]]:
    texts = (each.to_pylist() for each in sums.dimensions_of(table, fact, SLOT))
    return list(zip(*texts, strict=True))
