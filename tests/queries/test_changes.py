"""What each batch changed in a model: a reader who follows it has the model at every moment."""

from __future__ import annotations

import json
import select
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, connect
from tests.queries.life import JOINED, TABLES

KEPT = {"changes": "1 hour"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "sales": (
        "select shop_id, note, count(*) as n, sum(amount) as amount, avg(amount) as average"
        " from {sale} group by 1, 2",
        KEPT,
    ),
    "shops": ("select id, name from {shop}", KEPT),
    "named": (f"select s.name, sum(a.amount) as amount, sum(a.n) as n {JOINED} group by 1", KEPT),
    "most": ("select name, max(amount) as most from {named} group by 1", KEPT),
    "total": ("select sum(amount) as amount from {sale}", KEPT),
    "latest": ("select distinct on (name) name, id from {shops} order by name, id desc", KEPT),
    "notes": ("select distinct note from {sales}", KEPT),
    "untold": ("select count(*) as n from {shop}", {}),
}
FOLLOWED = [name for name, (_, config) in MODELS.items() if config]


class Follower:
    """A reader of a model's changes: its rows as it has added them up, and the last it has seen."""

    def __init__(self, system: QuerySystem, name: str) -> None:
        self.system, self.name = system, name
        self.rows: Counter[str] = Counter()
        self.last = 0
        self.readings = 0

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        return self.system.target.execute(query)

    def present(self) -> Counter[str]:
        columns = self._ask(
            "select string_agg(format('%I', one.name), ', ') from ("
            " select declaration from cdc.dependent_model where relation = 'analytics."
            f"{self.name}' union all select declaration from cdc.installed_model"
            f" where relation = 'analytics.{self.name}') as own"
            " cross join cdc.list_columns(own.declaration) as one where one.is_shown"
        )[0][0]
        rows = self._ask(
            f"select to_jsonb(shown)::text from (select {columns} from analytics.{self.name}) as shown"
        )
        return Counter(text for (text,) in rows)

    def follow(self) -> None:
        """Add what has come since, or read the model where that is said."""
        came = self._ask(
            f"select number, old::text, new::text from analytics.{self.name}_changes"
            f" where number > {self.last} order by number"
        )
        for number, old, new in came:
            self.last = number
            if old is None and new is None:
                self.rows = self.present()
                self.readings += 1
                # What else has come is in the model already.
                self.last = came[-1][0]
                break
            self.rows.subtract([old] if old else [])
            self.rows.update([new] if new else [])
            assert old is None or self.rows[old] >= 0, (self.name, old)

    def differs(self) -> Counter[str]:
        self.follow()
        found = self.present()
        found.subtract(self.rows)
        return Counter({row: count for row, count in found.items() if count})


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[QuerySystem]:
    with empty_database(cluster) as database:
        made = QuerySystem(database, tmp_path)
        made.source.execute(TABLES)
        made.keep(MODELS)
        made.target.take_baseline()
        made.catch_up()
        yield made


def write(system: QuerySystem, rng: Random) -> None:
    """Change some rows in one transaction."""
    statements = [
        "insert into lab.sale select coalesce(max(id), 0) + 1, {shop}, {amount}, '{note}' from lab.sale",
        "update lab.sale set amount = {amount} where id % 7 = {shop}",
        "update lab.sale set note = '{note}', shop_id = {shop} where id % 5 = {shop}",
        "delete from lab.sale where id % 11 = {amount}",
        "insert into lab.shop values ({shop}, 's{note}') on conflict do nothing",
        "update lab.shop set name = 's{note}' where id = {shop}",
        "delete from lab.shop where id = {shop}",
        *(["truncate lab.sale"] if rng.random() < 0.1 else []),
    ]
    chosen = rng.choices(statements, k=rng.randint(1, 4))
    values = {"shop": rng.randint(0, 6), "amount": rng.randint(-3, 9), "note": rng.choice("abä")}
    system.source.execute("; ".join(one.format(**values) for one in chosen))


def test_who_adds_up_the_changes_has_the_model_at_every_moment(system: QuerySystem) -> None:
    rng = Random(5)
    followers = [Follower(system, name) for name in FOLLOWED]
    for step in range(60):
        write(system, rng)
        if rng.random() < 0.7:
            system.catch_up()
        if step == 30:
            system.target.take_baseline()
            system.keep(MODELS)
            system.catch_up()
        for follower in followers:
            assert not follower.differs(), follower.name
    system.catch_up()
    assert system.differing() == {}
    assert all(2 <= follower.readings < 20 for follower in followers)
    assert system.target.value("select to_regclass('analytics.untold_changes') is null")


def test_a_row_of_nothing_but_nulls_is_told_as_a_row(system: QuerySystem) -> None:
    follower = Follower(system, "notes")
    assert not follower.differs()
    readings = follower.readings
    for change in (
        "insert into lab.sale values (1, 1, 5, null)",
        "update lab.sale set note = 'a'",
        "update lab.sale set note = null",
        "delete from lab.sale",
    ):
        system.source.execute(change)
        system.catch_up()
        assert not follower.differs(), change
    assert follower.readings == readings


def told(system: QuerySystem, name: str, *options: str) -> list[dict[str, Any]]:
    """Return what `loader changes` prints."""
    return [json.loads(line) for line in system.must("changes", name, *options).splitlines()]


def test_changes_are_printed_from_where_a_reader_stopped(system: QuerySystem) -> None:
    (mark,) = told(system, "sales")
    assert mark.keys() == {"number", "position", "changed_at", "read_anew"}
    system.source.execute("insert into lab.sale values (1, 1, 7, 'a')")
    system.catch_up()
    system.source.execute("update lab.sale set amount = 8.4")
    system.catch_up()
    came, moved = told(system, "sales", "--after", str(mark["number"]))
    row = {"shop_id": 1, "note": "a", "n": 1, "amount": 7, "average": 7}
    assert (came["old"], came["new"]) == (None, row)
    assert (moved["old"], moved["new"]) == (row, row | {"amount": 8, "average": 8})
    assert came["position"] < moved["position"]
    assert told(system, "sales", "--after", str(moved["number"])) == []
    for name, after, said in (
        ("untold", 0, "No model untold of the slot {} keeps its changes"),
        ("sales", 9999, "The changes of sales end with {1}, so 9999 is of a table that is gone"),
    ):
        code, text = system.refused("changes", name, "--after", str(after))
        assert code == 2 and said.format(system.slot, moved["number"]) in text


def test_what_is_older_than_it_is_kept_says_that_it_is_gone(system: QuerySystem) -> None:
    age = "update analytics.sales_changes set changed_at = now() - interval '61 min' where number <= {}"
    for id_ in range(1, 6):
        system.source.execute(f"insert into lab.sale values ({id_}, 1, 7, 'a')")
        system.catch_up()
    known = told(system, "sales")
    system.target.execute(age.format(known[2]["number"]))
    system.source.execute("insert into lab.sale values (6, 1, 7, 'a')")
    system.catch_up()
    mark, *left = told(system, "sales", "--after", str(known[1]["number"]))
    assert mark["number"] == known[2]["number"] and mark["read_anew"] and left[:-1] == known[3:]
    system.target.execute(age.format(known[3]["number"]))
    system.must("prune")
    mark, *left = told(system, "sales")
    assert mark["number"] == known[3]["number"] and mark["read_anew"] and left[:-1] == known[4:]


def test_changes_that_somebody_has_locked_hold_up_no_prune(system: QuerySystem) -> None:
    for table in ("sales", "shops"):
        system.source.execute(f"insert into lab.{table[:-1]} values (1)")
        system.catch_up()
        age = "update analytics.{}_changes set changed_at = now() - interval '61 min'"
        system.source.execute(f"insert into lab.{table[:-1]} values (2)")
        system.catch_up()
        system.target.execute(age.format(table))
    count = "select count(*) from analytics.{}_changes"
    before = system.target.value(count.format("sales"))
    with system.target.holding("lock table analytics.sales_changes in share mode"):
        system.must("prune")
        assert system.target.value(count.format("sales")) == before
        assert system.target.value(count.format("shops")) == 1
    system.must("prune")
    assert system.target.value(count.format("sales")) == 1


def test_more_rows_than_are_told_are_one_mark(system: QuerySystem) -> None:
    system.target.execute(
        "create or replace function cdc.changed_rows_limit() returns bigint language sql immutable as 'select 3::bigint'"
    )
    known = told(system, "shops")
    system.source.execute("insert into lab.shop select n, 'x' from generate_series(1, 9) as n")
    system.catch_up()
    assert [line.get("read_anew") for line in told(system, "shops")[len(known) :]] == [True]
    assert system.target.value(
        "select cdc.wait_for(slot_name, position_lsn, '1s', '{shops_changes}') from cdc.slot_position"
    )


def test_a_notification_names_the_models_that_changed(system: QuerySystem) -> None:
    with closing(connect(system.target.cluster.dsn(system.target.name))) as listener:
        listener.ask("listen waltally")
        system.source.execute("insert into lab.shop values (1, 'x')")
        system.catch_up()
        select.select([listener], [], [], 10)
        listener.poll()
        payload = json.loads(listener.notifies[0].payload)
    assert payload.keys() == {"slot", "position", "models"}
    assert {"shops", "latest", "named", "shops_changes", "untold"} <= set(payload["models"])
    assert "sales" not in payload["models"]


def test_without_the_option_nothing_is_kept_and_who_forgets_the_model_forgets_both(
    system: QuerySystem,
) -> None:
    system.must("forget", "most")
    assert "most_changes" not in system.must("stats")
    assert not system.target.value(
        "select count(*) from cdc.model_state where model_name = 'most_changes'"
    )
    system.keep({**MODELS, "most": (MODELS["most"][0], {}), "sales": (MODELS["sales"][0], {})})
    system.catch_up()
    for name, is_there in (("most", True), ("sales", False), ("shops", True)):
        found = system.target.value(
            "select to_regclass(%s) is not null", f"analytics.{name}_changes"
        )
        assert found is is_there
