"""A column that gets a wider type, or another name, costs no seed: a loader runs all the time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loader.applying.applier import apply_once
from loader.capture import stream
from loader.capture.events import RunState
from loader.capture.follow import follow as follow_once
from loader.source.fingerprint import FingerprintCatalog
from testkit.commands import RunningLoader, wait_until
from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, configured, connect

TABLE = """
create schema lab;
create table lab.item (
    id integer primary key, kind smallint, code varchar(5) collate "C", amount integer, price numeric(10, 2)
);
alter table lab.item replica identity full
"""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "sums": (
        "select kind, code, count(*) as n, sum(amount) as amount, avg(amount) as mean,"
        " sum(price) as price from {item} where amount > -5 group by 1, 2",
        {"changes": "1 hour"},
    ),
    "kept": ("select id, kind, code, amount * 2 as twice from {item}", {}),
    "most": ("select code, max(twice) as most, sum(twice) as sum from {kept} group by 1", {}),
}


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[QuerySystem]:
    with empty_database(cluster) as database:
        made = QuerySystem(database, tmp_path)
        made.source.execute(TABLE)
        made.keep(MODELS)
        made.target.take_baseline()
        yield made


class Writer:
    """Writes rows with these values, and changes and deletes others."""

    def __init__(self, system: QuerySystem) -> None:
        self.system, self.last = system, 0

    def write(self, kind: int, code: str, amount: int, price: str) -> None:
        self.last += 1
        self.system.source.execute(
            f"insert into lab.item values ({self.last}, {kind}, '{code}', {amount}, {price});"
            f"update lab.item set price = price + 1 where id % 3 = {self.last % 3};"
            f"delete from lab.item where id = {self.last} - 5"
        )


def follow(system: QuerySystem, running: RunningLoader) -> None:
    """Return once every model is what its query gives, and follows."""

    def is_exact() -> bool:
        return not system.differing() and set(system.states().values()) == {"follows"}

    wait_until(is_exact, f"{running.said()}\n{system.states()}\n{system.differing()}")


def test_a_wider_type_needs_no_seed_and_until_dbt_builds_no_row_is_left_out(
    system: QuerySystem,
) -> None:
    writer = Writer(system)
    alter = "alter table lab.item alter column {} type {}"
    baselines = "select array_agg(baseline_id order by model_name) from cdc.baseline"
    taken = system.target.value(baselines)
    with system.start("--build") as running:
        for number in range(4):
            writer.write(number % 2, "abc", number, "1.5")
        follow(system, running)
        # A type without its length is the same one.
        for column, type_ in (("code", 'varchar(10) collate "C"'), ("price", "numeric(14, 2)")):
            system.source.execute(alter.format(column, type_))
        writer.write(1, "abcdefgh", 7, "12345678901.5")
        follow(system, running)
        for column, type_ in (
            ("code", 'text collate "C"'),
            ("amount", "bigint"),
            ("kind", "integer"),
        ):
            system.source.execute(alter.format(column, type_))
            writer.write(2, "a longer code", -3, "2")
        follow(system, running)
        writer.write(2, "x", 3_000_000_000, "3")
        writer.write(70_000, "y", 4, "4")
        wait_until(lambda: system.states()["sums"] == "failed", "the first value that is too large")
        ((reason, remedy),) = system.target.execute(
            "select reason, remedy from cdc.model_state where model_name = 'sums'"
        )
        assert reason.startswith("the column amount has another type than when the model was built")
        assert remedy.endswith("without a seed.")
        system.keep(MODELS, is_refresh=False)
        follow(system, running)
        writer.write(3, "z", -3_000_000_000, "5")
        follow(system, running)
    assert system.target.value(baselines) == taken
    assert system.target.value("select count(*) from analytics.rejected_changes") == 0
    types = (
        "select string_agg(concat_ws(' ', format_type(atttypid, atttypmod),"
        " nullif(attcollation, 0)::regcollation), ',' order by attname)"
        " from pg_attribute where attrelid = 'analytics.sums'::regclass"
        " and attname in ('kind', 'code', 'amount')"
    )
    assert system.target.value(types) == 'numeric,text "C",integer'


@pytest.mark.parametrize(
    ("query", "was_left_out"),
    [
        ("select to_hex(amount) as hex, count(*) as n from {item} group by 1", False),
        ("select amount << 2 as more, count(*) as n from {item} group by 1", False),
        ("select amount * 1000000 as more, count(*) as n from {item} group by 1", True),
    ],
)
def test_what_means_another_thing_of_a_wider_type_waits_for_a_seed(
    system: QuerySystem, query: str, was_left_out: bool
) -> None:
    models: dict[str, tuple[str, dict[str, Any]]] = {"own": (query, {})}
    system.keep(models)
    system.target.take_baseline()
    Writer(system).write(1, "abc", 5000, "1")
    system.catch_up()
    rejected = "select count(*) > 0 from analytics.rejected_changes"
    assert system.target.value(rejected) == was_left_out
    system.source.execute("alter table lab.item alter column amount type bigint")
    system.keep(models, is_refresh=False)
    system.catch_up()
    state = "select state, reason from cdc.model_state"
    assert system.target.execute(state)[0][0] == "follows"
    assert "its query has changed: until a seed" in system.target.execute(state)[0][1]


def test_a_copy_that_is_built_first_with_a_wider_type_takes_no_baseline_from_production(
    system: QuerySystem,
) -> None:
    system.keep(WITHOUT, is_refresh=False)
    system.install("sums", "dev")
    writer = Writer(system)
    writer.write(1, "abc", 1, "1")
    system.catch_up()
    system.source.execute("alter table lab.item alter column amount type bigint")
    system.install("sums", "dev")
    refresh = "update cdc.installed_model set is_refresh_asked = true where relation ~ '^analytics'"
    system.target.execute(refresh)
    writer.write(1, "abc", 2, "1")
    system.catch_up()
    assert set(system.states().values()) == {"follows"}
    assert not system.differing()


RENAMED = {
    name: (query.replace("amount", "total").replace("total, avg", "amount, avg"), config)
    for name, (query, config) in MODELS.items()
    if name == "sums"
}
WITHOUT: dict[str, tuple[str, dict[str, Any]]] = {"sums": MODELS["sums"]}
STATE = "select state, reason from cdc.model_state where model_name = 'sums'"
WAITS = ("waits", "amount of lab.item is called total now")
LOOKED = (
    "select count(*) > 0 from pg_stat_activity where application_name ~ 'waltally'"
    " and query ~ 'synchronous_standby_names' and query_start > %s"
)
MOVED = "select moved_at > %s from cdc.slot_position"
BY_KEY: dict[str, tuple[str, dict[str, Any]]] = {
    "parts": ("select id, amount, note from {part}", {})
}


def test_a_column_with_another_name_needs_no_seed_while_rows_come_and_go(
    system: QuerySystem,
) -> None:
    system.keep(WITHOUT, is_refresh=False)
    writer = Writer(system)
    baselines = "select array_agg(baseline_id) from cdc.baseline"
    taken = system.target.value(baselines)
    with system.start("--build") as running:
        for number in range(4):
            writer.write(number % 2, "abc", number, "1.5")
        follow(system, running)
        system.source.execute("alter table lab.item rename amount to total")
        for number in range(7):
            writer.write(number % 2, "abc", number, "1.5")
        system.source.execute("update lab.item set total = total + 1")
        wait_until(lambda: system.target.execute(STATE) == [WAITS], running.said())
        system.keep(RENAMED, is_refresh=False)
        follow(system, running)
        # Another column may have the former name, and this one a third.
        system.source.execute("alter table lab.item add amount text default 'x'")
        writer.last += 1
        system.source.execute(
            f"insert into lab.item values ({writer.last}, 1, 'abc', 9, 1, 'amount'); delete from"
            " lab.item where id = 7; update lab.item set total = total * 2"
        )
        follow(system, running)
        # From a baseline that is older than the name.
        system.keep(RENAMED)
        follow(system, running)
    assert system.target.value(baselines) == taken
    assert system.target.value("select count(*) from analytics.rejected_changes") == 0
    system.keep(RENAMED, is_refresh=False)
    system.catch_up()
    assert system.states()["sums"] == "follows"


def test_what_was_planned_before_a_loader_saw_another_name_is_planned_anew(
    system: QuerySystem,
) -> None:
    """The plan would count a change that lacks the column as lost, which only a seed mends."""
    system.keep(WITHOUT, is_refresh=False)
    writer = Writer(system)
    writer.write(1, "abc", 1, "1.5")
    system.catch_up()
    system.target.execute(
        "create table public.earlier as"
        f" select planned from cdc.plan_models('{system.slot}') as planned"
    )
    system.source.execute("alter table lab.item rename amount to total")
    writer.write(1, "abc", 2, "1.5")
    for _ in range(2):  # it looks when it begins
        system.must("run", "--once")
    moved = system.target.value(
        "select cdc.try_models(array[planned], position_lsn, null, null, 1000)"
        " from public.earlier cross join cdc.slot_position"
    )
    assert (moved, system.target.execute(STATE)) == ([], [WAITS])


def test_a_column_that_gets_another_name_while_a_session_begins_is_seen(
    system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written down of a table is of the moment up to which it is said to be so."""
    system.keep(WITHOUT, is_refresh=False)
    writer = Writer(system)
    writer.write(1, "abc", 1, "1.5")
    system.catch_up()

    def renamed_first(*arguments: Any) -> FingerprintCatalog:
        system.source.execute("alter table lab.item rename amount to total")
        writer.write(1, "abc", 2, "1.5")
        return FingerprintCatalog(*arguments)

    monkeypatch.setattr(stream, "FingerprintCatalog", renamed_first)
    follow_once(system.loader_settings, threading.Event(), RunState(), once=True)
    apply_once(system.loader_settings)
    assert system.target.execute(STATE) == [WAITS]


def test_a_column_whose_other_name_is_streamed_before_it_is_visible_is_seen(
    system: QuerySystem, cluster: Cluster
) -> None:
    """A commit that waits for a standby is in the WAL, and in the stream, and no catalog has it."""
    system.keep(WITHOUT, is_refresh=False)
    Writer(system).write(1, "abc", 1, "1.5")
    system.catch_up()
    awaited = {"synchronous_standby_names": "'missing'", "synchronous_commit": "local"}
    with (
        system.start("--build") as running,
        closing(connect(system.dsns[0])) as session,
        ThreadPoolExecutor(1) as pool,
        configured(cluster, **awaited),
    ):
        running.wait_for("following the slot")
        wait_until(
            lambda: system.source.value("show synchronous_standby_names") == "missing", "reloaded"
        )
        pid = session.info.backend_pid
        session.ask("set synchronous_commit to on")
        renamed = pool.submit(
            session.ask,
            "begin; alter table lab.item rename amount to total;"
            " update lab.item set price = price + 1; commit",
        )
        try:
            wait_until(lambda: system.states()["sums"] != "follows", running.said())
            for _ in range(3):  # it looks, and stores that
                now = system.target.value("select clock_timestamp()")
                for later in (LOOKED, MOVED):
                    wait_until(partial(system.target.value, later, now), running.said())
            system.target.execute("update cdc.installed_model set retry_at = null")
            system.apply()
        finally:
            system.source.execute("select pg_cancel_backend(%s)", pid)
            renamed.result()
        wait_until(lambda: system.target.execute(STATE) == [WAITS], running.said())


def test_rows_by_key_wait_for_a_seed_where_a_column_has_another_name(system: QuerySystem) -> None:
    system.source.execute(
        "create table lab.part (id integer primary key, amount integer, note text)"
    )
    system.keep(BY_KEY)
    system.target.take_baseline()
    system.source.execute("insert into lab.part values (1, 1, 'a')")
    system.catch_up()
    assert not system.differing()
    for change, reason in (
        ("rename amount to total", "amount of lab.part is called total now"),
        ("drop column total", "amount of lab.part is gone"),
    ):
        system.source.execute(f"alter table lab.part {change}")
        system.source.execute("update lab.part set note = note || 'b'")
        system.catch_up()
        system.catch_up()
        ((state, said),) = system.target.execute("select state, reason from cdc.model_state")
        assert (state, said) == ("waits", reason)
    system.keep({"parts": ("select id, note from {part}", {})}, is_refresh=False)
    system.catch_up()
    ((said, remedy),) = system.target.execute("select reason, remedy from cdc.model_state")
    assert said == "amount of lab.part is gone; a seed counts its new query"
    assert remedy == "`spark-submit spark/seed.py --model parts`"


NARROWED = {
    "price": ("numeric(10, 2)", "numeric(10, 1)"),
    "at": ("timestamptz(3)", "timestamptz(0)"),
    "doc": ("json", "jsonb"),
    "code": ("varchar(5)", "char(5)"),
    "span": ("interval", "interval day"),
}
KEPT = {
    "dear": ("numeric(10, 1)", "numeric(12, 1)"),
    "late": ("timestamp(0)", "timestamp"),
    "called": ("varchar(3)", "text"),
    "size": ("integer", "numeric"),
}


def test_models_wait_where_a_column_keeps_less_of_its_values_than_before(
    system: QuerySystem,
) -> None:
    """ALTER TABLE rounds, cuts or spells them anew, and no change says so."""
    columns = {**NARROWED, **KEPT}
    system.source.execute(
        "create table lab.odd (id integer primary key, "
        + ", ".join(f"{name} {before}" for name, (before, _) in columns.items())
        + "); alter table lab.odd replica identity full"
    )
    system.keep(
        {
            f"of_{name}": (f"select {name}::text as x, count(*) as n from {{odd}} group by 1", {})
            if name in ("doc", "called")
            else (f"select {name}, count(*) as n from {{odd}} group by 1", {"timezone": "UTC"})
            for name in columns
        }
    )
    system.target.take_baseline()
    row = (
        "insert into lab.odd values ({}, 1.25, '2026-01-01 10:00:00.6+00', '{{\"a\":  1}}', 'a',"
        " '1 day 3 hours', 1.2, '2026-01-01 10:00:01', 'b', 7)"
    )
    system.source.execute(row.format(1))
    system.catch_up()
    assert system.differing() == {}
    for name, (_, after) in columns.items():
        system.source.execute(f"alter table lab.odd alter {name} type {after}")
    system.source.execute(row.format(2))
    for _ in range(2):
        system.catch_up()
    waiting = {name for name, state in system.states().items() if state != "follows"}
    assert waiting == {f"of_{name}" for name in NARROWED}
    assert system.differing(*(f"of_{name}" for name in KEPT)) == {}


def test_the_columns_of_a_query_that_goes_on_until_a_seed_are_watched_too(
    system: QuerySystem,
) -> None:
    """Nobody else may need them, and the model may get that query again."""
    system.source.execute(
        "create type lab.mood as enum ('good', 'bad');"
        "create table lab.felt (id integer primary key, mood lab.mood, code text);"
        "alter table lab.felt replica identity full"
    )
    by_mood: dict[str, tuple[str, dict[str, Any]]] = {
        "felt_by": ("select mood, count(*) as n from {felt} group by 1", {})
    }
    system.keep(by_mood)
    system.target.take_baseline()
    system.source.execute("insert into lab.felt values (1, 'good', 'a')")
    system.catch_up()
    system.keep(
        {"felt_by": ("select code, count(*) as n from {felt} group by 1", {})}, is_refresh=False
    )
    system.catch_up()
    assert system.states() == {"felt_by": "follows"}
    system.source.execute("alter type lab.mood rename value 'good' to 'fine'")
    system.source.execute("insert into lab.felt values (2, 'fine', 'a')")
    for queries in (None, by_mood):
        if queries:
            system.keep(queries, is_refresh=False)
        system.catch_up()
        ((state, reason),) = system.target.execute("select state, reason from cdc.model_state")
        assert state == "waits" and "the label 'good' of mood is 'fine' now" in reason
