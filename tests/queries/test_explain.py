"""What `loader setup --explain` says of DDL, and that this is what happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster

TABLES = """
create type lab.mood as enum ('good', 'bad');
create table lab.item (
    id integer primary key, kind smallint, code varchar(5), price numeric(10, 2), mood lab.mood,
    note text
);
alter table lab.item replica identity full;
create table lab.shop (id integer primary key, name text)
"""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "prices": ("select kind, sum(price) as price from {item} group by 1", {}),
    "codes": ("select code, mood, count(*) as n from {item} group by 1, 2", {}),
    "shops": ("select id, name from {shop}", {}),
    "above": ("select price, max(kind) as most from {prices} group by 1", {}),
}
WAITS = "{} waits for a seed, about 2.0 s by an estimate: "
CASES = [
    ("add column more integer default 1", []),
    ("alter column note type varchar(9)", []),
    ("alter column code type varchar(10)", ["codes goes on: code keeps its values"]),
    ("alter column code type varchar(4)", [WAITS.format("codes")]),
    ("alter column code type text", ["codes goes on: code gets a wider type"]),
    ("alter column price type numeric(14, 2)", ["prices goes on: price keeps its values"]),
    ("alter column price type numeric(14, 3)", [WAITS.format("prices")]),
    ("alter column price type numeric", ["prices goes on: price keeps its values"]),
    ("alter column kind type bigint", ["prices goes on: kind gets a wider type"]),
    ("alter column kind type bigint using kind + 1", [WAITS.format("prices")]),
    ("alter column kind type text", [WAITS.format("prices")]),
    ("rename column kind to sort", ["prices waits: write sort into its query"]),
    ("rename column note to remark", []),
    ("drop column code", [WAITS.format("codes")]),
    ("rename to old_item", [WAITS.format("prices"), WAITS.format("codes")]),
    ("set schema public", [WAITS.format("prices"), WAITS.format("codes")]),
    ("set unlogged", [WAITS.format("prices"), WAITS.format("codes")]),
    ("attach partition lab.other default", [WAITS.format("prices"), WAITS.format("codes")]),
]


@pytest.fixture(scope="module")
def system(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuerySystem]:
    with empty_database(cluster) as database:
        made = QuerySystem(database, tmp_path_factory.mktemp("explain"))
        made.source.execute("create schema lab")
        made.source.execute(TABLES)
        made.keep(MODELS)
        made.target.take_baseline()
        made.catch_up()
        yield made


@pytest.mark.parametrize(("change", "said"), CASES, ids=[change for change, _ in CASES])
def test_each_change_says_which_models_go_on(
    system: QuerySystem, change: str, said: list[str]
) -> None:
    statement = f"alter table lab.item {change}"
    first, *lines, last = system.must("setup", "--explain", statement).splitlines()
    assert first == statement
    assert len(lines) == len(said), lines
    for one in said:
        [line] = [line for line in lines if line.strip().startswith(one)]
        assert ("; above wait with it" in line) == one.startswith(WAITS.format("prices"))
    others = 3 - len(said)
    assert last == f"  {others} other model{'s go' if others > 1 else ' goes'} on"


def test_a_migration_is_explained_statement_by_statement_and_nothing_runs_it(
    system: QuerySystem, tmp_path: Path
) -> None:
    file = tmp_path / "migration.sql"
    file.write_text(
        "-- Partitioned.\nalter table lab.item rename to item_old;\n"
        "create table lab.item (like item_old) partition by range (id);\n"
        "alter type lab.mood rename value 'bad' to 'worse';\ncreate index on lab.shop (name)\n"
    )
    said = system.must("setup", "--explain", str(file))
    of_rows = system.must("setup", "--explain", "alter table shop rename name to called")
    assert "shops waits for a seed, about 2.0 s by an estimate: write called into" in of_rows
    assert said.count("prices waits for a seed") == 2
    assert said.count("codes waits for a seed") == 3
    assert said.endswith("create index on lab.shop (name)\n  3 other models go on\n")
    assert "worse" not in system.source.execute("select enum_range(null::lab.mood)::text")[0][0]
    code, text = system.refused("setup", "--explain", "alter table lab.item rename colum a")
    assert code == 2 and "This is no SQL that PostgreSQL reads: syntax error at or near" in text
