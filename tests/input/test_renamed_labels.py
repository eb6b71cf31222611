"""A label of an enum that gets another name at the source makes no number wrong.

Stored changes have the former name, and the old rows of later changes have the new one. So it is
with other DDL that writes no row: what a composite is made of, a time that gets or loses its zone,
and another primary key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster
from waltally.errors import TableUnfit

TABLES = """
create schema lab;
create type lab.state as enum ('new', 'paid', 'it''s "x"');
create type lab.kind as enum ('a', 'b');
create domain lab.known_state as lab.state;
create table lab.orders (id int primary key, state lab.state, kinds lab.kind[],
    former lab.known_state, n int);
create table lab.parted (id int, state lab.state, n int) partition by list (id);
create table lab.parted_1 partition of lab.parted default;
alter table lab.orders replica identity full;
alter table lab.parted_1 replica identity full;
insert into lab.orders select n, (array['new', 'paid'])[1 + n % 2]::lab.state, '{a,b}', 'new', n
from generate_series(1, 9) as n;
insert into lab.parted select id, state, n from lab.orders;
"""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "by_state": ("select state, count(*) as n from {orders} group by 1", {}),
    "by_kind": (
        "select k::text as kind, count(*) as n from {orders} cross join unnest(kinds) as k"
        " group by 1",
        {},
    ),
    "by_former": ("select former::text, sum(n) as n from {orders} group by 1", {}),
    "current_states": ("select id, state from {orders}", {}),
    "total": ("select count(*) as row_count, sum(n) as n from {orders}", {}),
    "parted_states": ("select state, count(*) as n from {parted} group by 1", {}),
}
SEED = "spark-submit spark/seed.py"
OF_STATE = {"by_state", "by_former", "current_states", "parted_states"}
RENAMED = "alter type lab.state rename value 'new' to 'fresh'"


@contextmanager
def seeded(
    cluster: Cluster,
    home: Path,
    tables: str,
    models: dict[str, tuple[str, dict[str, Any]]],
    has_followed: bool = True,
) -> Iterator[QuerySystem]:
    """Models over tables with rows, which a loader has followed or not."""
    with empty_database(cluster) as source:
        source.execute(tables)
        made = QuerySystem(source, home)
        made.keep(models)
        if has_followed:
            made.must("run", "--once")
        made.spark_job(SEED)
        yield made


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[QuerySystem]:
    with seeded(cluster, tmp_path, TABLES, MODELS) as made:
        made.source.execute("insert into lab.orders values (10, 'new', '{a}', 'new', 1)")
        made.catch_up()
        assert made.differing() == {}
        yield made


def states(system: QuerySystem) -> dict[str, str]:
    """Return what is said of each model that does not follow."""
    said = "select model_name, reason || '; ' || remedy from cdc.model_state"
    return dict(system.target.execute(f"{said} where state <> 'follows'"))


def must_be_exact(system: QuerySystem) -> None:
    system.catch_up()
    assert states(system) == {}
    assert system.differing() == {}


def change(system: QuerySystem) -> None:
    run = system.source.execute
    run("insert into lab.orders values (20, 'paid', '{b}', 'paid', 7)")
    run("update lab.orders set state = 'paid', n = n + 1 where id < 5")
    run("delete from lab.orders where id = 6")
    run("update lab.parted set n = n + 1")


def change_again(system: QuerySystem) -> None:
    """Change rows of the former name after others of the new one: no count goes below zero."""
    for table, row in (("orders", "n, 'fresh', '{a}', 'fresh', 1"), ("parted", "n, 'fresh', 1")):
        new = "coalesce((select max(id) from lab.orders), 0) + 100"
        system.source.execute(
            f"insert into lab.{table} select {row} from generate_series({new}, {new} + 9) as n"
        )
    system.source.execute("update lab.orders set state = 'paid' where state = 'fresh' and id < 10")
    system.source.execute("update lab.parted set n = n + 1; delete from lab.parted where id = 8")


def while_a_loader_follows(system: QuerySystem) -> None:
    with system.follow("--build"):
        change(system)
        system.wait_for_log()
        wait_until(lambda: system.differing() == {}, "all is applied")
        system.source.execute(RENAMED)
        change_again(system)
        system.wait_for_log()


def while_no_loader_runs(system: QuerySystem) -> None:
    change(system)
    system.source.execute(RENAMED)
    code, found = system.refused("setup", "--check")
    assert code and "lab.orders was altered: the label 'new' of state is 'fresh' now" in found
    assert found.count("\nTry: see that `loader run` runs, then `spark-submit") == 3
    change_again(system)
    system.must("run", "--once")


def before_the_batch_ends(system: QuerySystem) -> None:
    """Its position has moved over the rename before anything else is stored."""
    system.source.execute(RENAMED)
    system.must("run", "--once")
    change_again(system)
    system.must("run", "--once")


@pytest.mark.parametrize(
    "happens", [while_a_loader_follows, while_no_loader_runs, before_the_batch_ends]
)
def test_models_of_a_renamed_label_wait_for_a_seed_and_others_follow(
    system: QuerySystem, happens: Callable[[QuerySystem], None]
) -> None:
    happens(system)
    system.apply()
    said = states(system)
    assert said.keys() == OF_STATE
    for name, words in said.items():
        table = "parted" if name == "parted_states" else "orders"
        column = "former" if name == "by_former" else "state"
        assert f"lab.{table} was altered: " in words
        assert f"the label 'new' of {column} is 'fresh' now" in words
        assert SEED in words
    twice = "select count(*) from analytics.by_state where state = 'fresh'"
    assert system.target.value(twice) == 0, "nothing was added under two names"
    assert system.differing().keys() <= OF_STATE
    system.spark_job(SEED)
    system.must("setup")
    change_again(system)
    must_be_exact(system)


def test_another_label_is_no_change_but_its_own_name_counts_from_then_on(
    system: QuerySystem,
) -> None:
    system.source.execute("alter type lab.kind add value 'c' before 'a'")
    system.source.execute("update lab.orders set kinds = '{c}' where id = 1")
    must_be_exact(system)
    system.source.execute("alter type lab.kind rename value 'c' to 'd'")
    system.source.execute("update lab.orders set kinds = '{a}' where id = 1")
    system.catch_up()
    assert states(system).keys() == {"by_kind"}


def test_a_loader_that_was_never_run_sees_what_was_renamed_since_the_seed(
    cluster: Cluster, tmp_path: Path
) -> None:
    model = {"by_state": MODELS["by_state"]}
    with seeded(cluster, tmp_path, TABLES, model, has_followed=False) as system:
        system.source.execute(RENAMED)
        change_again(system)
        system.catch_up()
        [(name, said)] = states(system).items()
        assert name == "by_state" and "the label 'new' of state is 'fresh' now" in said


ODD_TABLES = """
create schema lab;
create type lab.address as (street text, number int);
create table lab.places (id int primary key, address lab.address);
create table lab.times (id int primary key, at timestamptz, n int);
create table lab.weighed (id int primary key, weight real);
alter table lab.weighed replica identity full;
insert into lab.weighed values (1, 0.1);
create table lab.keyed (id int primary key, part int not null, n int);
alter table lab.places replica identity full;
alter table lab.times replica identity full;
insert into lab.places values (1, '(a,1)'), (2, '(b,2)');
insert into lab.times values (1, '2026-01-01 23:30+00', 1), (2, '2026-01-02 10:00+00', 1);
insert into lab.keyed values (1, 1, 1), (2, 1, 1);
"""
IN_TOKYO = {"timezone": "Asia/Tokyo"}
ODD_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "addresses": ("select address::text as address, count(*) as n from {places} group by 1", {}),
    "days": ("select at::date as day, count(*) as n from {times} group by 1", IN_TOKYO),
    "numbered": ("select id, part, n from {keyed}", {}),
    "rows_of_keyed": ("select count(*) as n from {keyed}", {}),
    "times_total": ("select sum(n) as n from {times}", {}),
    "weights": ("select sum(weight::text::numeric) as weight from {weighed}", {}),
}
ODD_DDL = {
    "addresses": (
        "alter type lab.address add attribute zip text",
        "the type '(text, integer)' of address is '(text, integer, text)' now",
        None,
    ),
    "days": (
        "set timezone = 'UTC'; alter table lab.times alter at type timestamp",
        "the type 'timestamp with time zone' of at is 'timestamp without time zone' now",
        "its at is a timestamp without time zone now",
    ),
    "numbered": (
        "alter table lab.keyed drop constraint keyed_pkey, add primary key (id, part)",
        "the key 'id' of id is 'id, part' now",
        "its primary key is id, part now",
    ),
    "weights": (
        "alter table lab.weighed alter weight type float8",
        "the type 'real' of weight is 'double precision' now",
        "its weight is a double precision now",
    ),
}
ODD_CHANGES = (
    "insert into lab.places values (3, '(a,1,,)'); delete from lab.places where id = 2;"
    "insert into lab.times values (3, '2026-01-01 23:30', 1); delete from lab.times where id = 1;"
    "insert into lab.weighed values (2, 1.23456789012);"
    "insert into lab.keyed values (1, 2, 7); update lab.keyed set n = 2"
)


def test_models_wait_where_types_and_keys_change_without_a_row(
    cluster: Cluster, tmp_path: Path
) -> None:
    with seeded(cluster, tmp_path, ODD_TABLES, ODD_MODELS) as system:
        run = system.source.execute
        with system.follow("--build") as running:
            for sessions, (ddl, _, _) in enumerate(ODD_DDL.values(), 2):
                run(ddl)
                running.wait_for("following the slot", sessions)
            running.end()
        run("alter type lab.address add attribute land text")
        run(ODD_CHANGES)
        system.catch_up()
        said = states(system)
        assert said.keys() == ODD_DDL.keys()
        found = system.loader("status").stdout
        for name, (_, words, refused) in ODD_DDL.items():
            assert (words in said[name]) == (name != "addresses")
            assert refused is None or f"not as {name} was compiled for it: {refused}" in found
        with pytest.raises(TableUnfit, match="not as days was compiled for it"):
            system.spark_job(SEED)
        system.spark_job(f"{SEED} --model addresses")
        system.keep(ODD_MODELS)
        system.spark_job(f"{SEED} --model days --model numbered --model weights")
        run("delete from lab.keyed where part = 2; delete from lab.times where id = 2")
        run("set timezone = 'Asia/Tokyo'")
        must_be_exact(system)
