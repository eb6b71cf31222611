"""The life of models over models, on a slot: what their inputs, other sessions and they go through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from loader.setup.registering import write_record
from loader.source.asking import read_server
from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, connect
from waltally import lsn
from waltally.database import Connection, connect_target
from waltally.errors import LoaderError

TABLES = """
create schema lab;
create table lab.sale (id int primary key, shop_id int, amount int, note text);
create table lab.shop (id int primary key, name varchar(6));
alter table lab.sale replica identity full;
alter table lab.shop replica identity full;
"""
JOINED = "from {sales} as a inner join {shops} as s on s.id = a.shop_id"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "sales": ("select shop_id, count(*) as n, sum(amount) as amount from {sale} group by 1", {}),
    "shops": ("select id, name from {shop}", {}),
    "named": (f"select s.name, sum(a.amount) as amount, sum(a.n) as n {JOINED} group by 1", {}),
    "narrow": (f"select s.name, sum(a.amount)::integer as amount {JOINED} group by 1", {}),
    "halved": (f"select 10 / s.id as part, count(*) as n {JOINED} group by 1", {}),
    "most": ("select max(amount) as most, count(distinct n) as sizes from {named}", {}),
}
UPPER = ("named", "narrow", "halved", "most")


class Life(QuerySystem):
    """The models above, seeded over empty tables."""

    def begin(self) -> None:
        self.source.execute(TABLES)
        self.keep(MODELS)
        self.target.take_baseline()
        self.as_begun = self.models

    def is_as_begun(self) -> bool:
        """Whether a test has left the models as they were, and each follows."""
        is_there = self.target.value("select to_regnamespace('cdc') is not null")
        if not is_there or self.models != self.as_begun:
            return False
        states = self.target.execute("select model_name, state from cdc.model_state")
        return dict(states) == dict.fromkeys(MODELS, "follows")

    def fill(self) -> None:
        """Let the tables have their first rows."""
        self.source.execute(
            "truncate lab.sale, lab.shop;"
            " insert into lab.shop select n, 'shop ' || n % 3 from generate_series(1, 6) as n;"
            " insert into lab.sale select n, 1 + n % 7, n, 'x' from generate_series(1, 40) as n"
        )
        self.must_be_exact()

    @contextmanager
    def other_session(self) -> Iterator[Connection]:
        """Give a session of somebody else, in a transaction."""
        with closing(connect(self.target.cluster.dsn(self.target.name))) as other:
            other.autocommit = False
            yield other

    def state(self, name: str) -> tuple[str, str | None, str | None]:
        ((state, reason, remedy),) = self.target.execute(
            "select state, reason, remedy from cdc.model_state where model_name = %s", name
        )
        return state, reason, remedy

    def try_again(self) -> None:
        """Let no model wait with its next try, and apply."""
        self.target.execute(
            "update cdc.downstream_model set retry_at = null where retry_at is not null;"
            " update cdc.installed_model set retry_at = null where retry_at is not null"
        )
        self.catch_up()

    def differing(self, *models: str) -> dict[str, list[tuple[Any, ...]]]:
        found = {}
        for name in models or UPPER:
            columns = self.target.value(
                "select string_agg(format('%%I', one.name), ', ') from cdc.downstream_model as own"
                " cross join cdc.list_columns(own.declaration) as one"
                " where own.name = %s and one.is_shown",
                name,
            )
            query = self.models[name][0].replace('"db".', "")
            found[name] = self.compare(
                f"select {columns} from analytics.{name}", f"select {columns} from ({query}) as q"
            )
        return {name: rows for name, rows in found.items() if rows}

    def must_be_exact(self, *models: str) -> None:
        self.catch_up()
        for name in models or UPPER:
            assert self.state(name) == ("follows", None, None)
        assert self.differing(*models) == {}


@pytest.fixture(scope="module")
def begun(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Life]]:
    """Begin a life, or take that of the test before, where this has left it as it was."""
    lives: list[Life] = []
    with ExitStack() as database:

        def begin() -> Life:
            if not lives or not lives[-1].is_as_begun():
                database.close()
                made = database.enter_context(empty_database(cluster))
                lives.append(Life(made, tmp_path_factory.mktemp("life")))
                lives[-1].begin()
            return lives[-1]

        yield begin


@pytest.fixture
def life(begun: Callable[[], Life]) -> Life:
    """The models of the tables' first rows."""
    made = begun()
    made.fill()
    return made


def test_a_model_that_fails_is_filled_again_and_its_inputs_and_neighbours_go_on(life: Life) -> None:
    life.source.execute("insert into lab.sale values (100, 1, 2000000000), (101, 1, 2000000000)")
    life.catch_up()
    state, reason, remedy = life.state("narrow")
    assert (state, reason) == ("failed", "integer out of range")
    assert remedy == (
        "cast what is summed to numeric in the query (`sum(x::numeric)`), or its total to a wider"
        " type, then `dbt build`"
    )
    assert life.state("sales")[0] == "follows"
    life.must_be_exact("named", "halved", "most")
    pauses = "select failures, round(extract(epoch from retry_at - clock_timestamp()))::int"
    before, _ = life.target.execute(f"{pauses} from cdc.downstream_model where name = 'narrow'")[0]
    for _ in range(3):
        life.try_again()
    failures, pause = life.target.execute(
        f"{pauses} from cdc.downstream_model where name = 'narrow'"
    )[0]
    assert failures == before + 3 and pause >= 2 ** (failures - 1) - 2
    held = "select cdc.wait_for(slot_name, position_lsn, '100ms', array[%s]) from cdc.slot_position"
    assert life.target.value(held, "named") and not life.target.value(held, "narrow")
    life.source.execute("delete from lab.sale where id = 101")
    life.try_again()
    life.must_be_exact()


def test_a_value_that_the_query_cannot_take_stops_the_model_alone(life: Life) -> None:
    life.source.execute("insert into lab.shop values (0, 'zero'); update lab.sale set shop_id = 0")
    life.catch_up()
    state, reason, remedy = life.state("halved")
    assert (state, reason) == ("failed", "division by zero")
    assert remedy == (
        "compute it in the rows model below, where a row that it cannot take is listed in"
        " rejected_changes, then `dbt build`"
    )
    life.must_be_exact("named", "narrow", "most")
    life.source.execute("delete from lab.shop where id = 0")
    life.catch_up()
    life.try_again()
    life.must_be_exact()


def test_more_changed_rows_than_it_follows_fill_it_again(life: Life) -> None:
    told = "create or replace function cdc.told_rows() returns bigint language sql immutable as"
    life.source.execute("update lab.sale set amount = amount + 1")
    life.must("run", "--once")
    life.target.execute(f"{told} 'select 3::bigint'")
    try:
        life.target.execute("select from cdc.apply(%s, part => 'front')", life.slot)
    finally:
        life.target.execute(f"{told} 'select 50000::bigint'")
    state, reason, _ = life.state("named")
    assert state == "waits"
    assert reason is not None and reason.endswith(
        "more rows of analytics.sales changed at once than it follows"
    )
    assert life.state("most")[1] == "analytics.named, which it reads, is to be filled first"
    life.must_be_exact()


def test_a_model_that_somebody_has_locked_is_filled_afterwards_and_says_so(life: Life) -> None:
    with life.other_session() as holder:
        holder.ask("lock table analytics.named in share mode")
        life.source.execute("update lab.sale set amount = amount + 1 where id = 3")
        life.catch_up()
        state, reason, remedy = life.state("named")
        assert state == "waits"
        assert reason is not None and "it could not be locked: " in reason
        assert remedy == "`loader run --build` or `dbt build`"
        asked = "select count(*) from cdc.to_fill where model_name = 'analytics.named'"
        for _ in range(3):
            life.try_again()
        assert life.target.value(asked) == 1
        life.must_be_exact("narrow", "halved")
        holder.rollback()
    life.try_again()
    life.must_be_exact()


def test_while_a_model_is_filled_nothing_below_it_changes_and_nothing_is_left_out(
    life: Life,
) -> None:
    life.target.execute("insert into cdc.to_fill values ('analytics.most', 'a test asks for it')")
    with life.other_session() as other:
        other.ask("select from cdc.apply(%s, part => 'behind')", (life.slot,))
        assert other.ask("select count(*) from cdc.to_fill") == [(0,)]
        life.source.execute("update lab.sale set amount = amount + 1")
        life.must("run", "--once")
        life.target.execute("select from cdc.apply(%s)", life.slot)
        left_out = "select reason from cdc.to_fill where model_name <> 'analytics.most'"
        assert life.target.execute(left_out) == []
        assert life.state("sales")[0] == "follows"
        other.commit()
    life.must_be_exact()


def test_a_busy_slot_is_waited_for_by_who_fills(life: Life) -> None:
    life.target.execute("insert into cdc.to_fill values ('analytics.most', 'a test asks for it')")
    with life.other_session() as busy, ThreadPoolExecutor() as pool:
        key = "cdc.lock_key('model', 'analytics.sales')"
        busy.ask(f"select pg_advisory_xact_lock({key})")
        filling = pool.submit(
            life.target.execute, "select from cdc.apply(%s, part => 'behind')", life.slot
        )
        waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory'"
        wait_until(lambda: busy.ask(waiting) == [(1,)], "it waits")
        busy.commit()
        filling.result()
    assert life.target.value("select count(*) from cdc.to_fill") == 0
    life.must_be_exact()


def test_a_model_of_which_one_input_is_behind_the_other_says_so(life: Life) -> None:
    with life.other_session() as other:
        other.ask("select pg_advisory_xact_lock(cdc.lock_key('model', 'analytics.shops'))")
        life.source.execute("insert into lab.shop values (9); insert into lab.sale values (90, 9)")
        life.must("run", "--once")
        life.target.execute("select from cdc.apply(%s)", life.slot)
        assert life.state("shops")[0] == "follows"
        state, reason, remedy = life.state("named")
        assert state == "waits"
        assert reason is not None and "it reads are at different positions" in reason
        assert remedy == "`loader run --build` or `dbt build`"
        other.rollback()
    life.must_be_exact()


def test_a_model_that_dbt_installs_while_its_inputs_are_waited_for_does_not_fail(
    life: Life,
) -> None:
    dsn = life.target.cluster.dsn(life.target.name)
    behind = "select from cdc.apply(%s, part => 'behind')"
    with (
        closing(connect(dsn)) as builder,
        closing(connect(dsn)) as filler,
        ThreadPoolExecutor() as pool,
    ):
        builder.ask("select pg_advisory_lock(cdc.lock_key('model', 'analytics.sales'))")
        life.target.execute("select cdc.ask_to_fill('analytics.named', 'a test asks for it')")
        filling = pool.submit(filler.ask, behind, (life.slot,))
        waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory'"
        wait_until(lambda: life.target.value(waiting) == 1, "it waits")
        query, _ = MODELS["named"]
        life.declare({**MODELS, "named": (query.replace("sum(a.n)", "2 * sum(a.n)"), {})})
        life.install_above("named")
        builder.ask("select pg_advisory_unlock_all()")
        filling.result()
    assert life.state("named")[0] == "waits"
    life.must_be_exact()


def test_two_threads_of_dbt_that_install_models_below_one_know_its_level(life: Life) -> None:
    below = "select {} as n, count(*) as k from {{{}}} group by 1"
    added: dict[str, tuple[str, dict[str, Any]]] = {
        "low_one": (below.format("n", "sales"), {}),
        "low_two": (below.format("amount", "sales"), {}),
        "high": (
            "select count(*) as n from {low_one} as a inner join {low_two} as b using (n)",
            {},
        ),
    }
    life.keep({**MODELS, **added}, is_refresh=False)
    level = "select level from cdc.downstream_model where name = 'high'"
    assert life.target.value(level) == 2
    added["low_one"] = below.format("sizes", "most"), {}
    added["low_two"] = below.format("amount", "named"), {}
    life.declare({**MODELS, **added})
    with (
        closing(connect(life.target.cluster.dsn(life.target.name))) as one,
        ThreadPoolExecutor() as pool,
    ):
        one.autocommit = False
        own, life.target.connection = life.target.connection, one
        life.install_above("low_one")
        life.target.connection = own
        other = pool.submit(life.install_above, "low_two")
        waiting = "select count(*) from pg_locks where not granted"
        wait_until(lambda: one.ask(waiting) == [(1,)], "it waits")
        one.commit()
        other.result()
    assert life.target.value(level) == 4


def test_an_audit_s_comparison_finds_a_row_that_is_missing_and_another_value(life: Life) -> None:
    query = life.target.value(
        "select cdc.write_difference(declaration, 'analytics.named', 9)"
        " from cdc.downstream_model where name = 'named'"
    )
    assert life.target.execute(query) == [(3, 0, [])]
    life.target.execute(
        "delete from analytics.named where name = 'shop 0';"
        " update analytics.named set n = n + 1 where name = 'shop 1'"
    )
    ((_, _, first),) = life.target.execute(query)
    found = {(*keys, column): (own, counted) for keys, column, own, counted in first}
    assert found["shop 0", "n"][0] is None
    own, counted = found["shop 1", "n"]
    assert int(own) == int(counted) + 1


def test_what_is_no_model_of_ours_is_refused_in_setup(life: Life) -> None:
    for materialized, remedy in (
        ("view", "`materialized='ephemeral'` for it, which dbt writes into the query"),
        ("snapshot", "`materialized='waltally'` for it, if its query can be kept"),
    ):
        life.declare(
            {
                **MODELS,
                "other": ("select shop_id from {sale}", {"materialized": materialized}),
                "above": ("select shop_id, count(*) as n from {other} group by 1", {}),
            }
        )
        _, said = life.refused("setup")
        assert "above: analytics.other is no model of waltally: its changes are not seen" in said
        assert remedy in said
    life.declare(
        {
            **MODELS,
            "above": (f"select n.note {JOINED} join {{sale}} n on n.id = s.id group by 1", {}),
        }
    )
    _, said = life.refused("setup")
    assert "above: The query reads sources beside models, which change at other moments" in said
    assert (
        "the query over models by ref(), with a rows model of each source: of lab.sale"
        " `select id, note from {{ source(...) }}`, 32 bytes a row and the values of note" in said
    )
    life.keep(MODELS)


def test_an_input_that_is_emptied_dropped_or_built_again_by_hand(life: Life) -> None:
    refresh = "update cdc.installed_model set is_refresh_asked = true where declared_name = 'sales'"
    life.target.execute("truncate analytics.sales")
    life.target.execute(refresh)
    life.must_be_exact()

    life.target.execute("alter table analytics.sales rename to elsewhere")
    life.source.execute("update lab.sale set amount = amount + 1; update lab.shop set name = 'a'")
    life.catch_up()
    assert life.state("sales")[0] == "failed"
    for name in ("named", "narrow", "halved"):
        state, reason, remedy = life.state(name)
        assert state in ("waits", "failed") and reason is not None and remedy is not None
    life.target.execute("alter table analytics.elsewhere rename to sales")
    life.try_again()
    life.try_again()
    life.must_be_exact()

    life.source.execute("truncate lab.sale")
    life.must_be_exact()
    life.source.execute("insert into lab.sale values (1, 2, 3)")
    life.must_be_exact()


def test_an_input_that_was_dropped_is_made_again_by_what_its_state_says(life: Life) -> None:
    life.target.execute("drop table analytics.shops")
    life.source.execute("update lab.shop set name = 'a'")
    life.catch_up()
    state, _, remedy = life.state("shops")
    assert state == "failed" and remedy is not None and remedy.startswith("`dbt build`")
    why = (
        "analytics.shops, which it reads, has other columns or another key than it was compiled for"
    )
    for name in ("named", "narrow", "halved"):
        assert life.state(name) == ("waits", why, "`dbt build`")
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()
    assert life.compare("select id, name from analytics.shops", "select * from lab.shop") == []
    life.target.execute("drop table analytics.most; create view analytics.most as select 1 as n")
    with pytest.raises(psycopg2.Error, match="most is a view, and rows are added to a table"):
        life.install_above("most")
    life.target.execute("drop view analytics.most")
    life.install_above("most")
    life.must_be_exact()


def test_a_key_a_column_a_right_or_a_name_taken_away_is_given_back_by_what_is_said(
    life: Life,
) -> None:
    for lost in ("drop constraint uix_sales_dimensions", "drop column amount"):
        life.target.execute(f"alter table analytics.sales {lost}")
        life.source.execute("update lab.sale set amount = amount + 1")
        life.catch_up()
        state, _, remedy = life.state("sales")
        assert state == "failed" and remedy is not None
        assert remedy.startswith("`dbt build --full-refresh --select sales`")
        life.keep(MODELS)
        life.must_be_exact()

    routine = "select routine from cdc.installed_model where declared_name = 'sales'"
    ((name,),) = life.target.execute(routine)
    life.target.execute(f"create role poor; alter function {name} owner to poor")
    life.source.execute("update lab.sale set amount = amount + 1")
    life.catch_up()
    assert life.state("sales")[2] == "grant it as docs/roles.md says, then `dbt build`"
    life.target.execute(f"alter function {name} owner to current_user; drop role poor")
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()

    life.target.execute("alter table analytics.sales rename to former")
    said = r"former has the index analytics\.uix_sales_dimensions, which is to be the key of"
    with pytest.raises(psycopg2.Error, match=said) as refused:
        life.keep(MODELS, is_refresh=False)
    life.target.execute(str(refused.value.diag.message_hint))
    life.keep(MODELS, is_refresh=False)
    life.must_be_exact()
    life.target.execute("drop table analytics.former")


def test_a_length_that_is_widened_at_the_source_cuts_no_value(life: Life) -> None:
    life.source.execute(
        "alter table lab.shop alter name type varchar(40);"
        " update lab.shop set name = name || ' under a longer name'"
    )
    life.must_be_exact()
    assert life.compare("select id, name from analytics.shops", "select * from lab.shop") == []


def test_an_audit_names_an_input_that_does_not_follow(life: Life) -> None:
    audit = "spark-submit spark/audit.py --model named"
    is_noted = "select audited_at is not null from cdc.model_state where model_name = 'named'"
    life.target.execute(
        "update cdc.installed_model set error = 'no', remedy = 'do it' where declared_name = 'sales'"
    )
    assert "Note: analytics.sales, which it reads, failed: no" in life.spark_job(audit)
    assert not life.target.value(is_noted)
    life.try_again()
    assert "Note: " not in life.spark_job(audit)
    assert life.target.value(is_noted)


def test_a_copy_whose_schema_was_dropped_is_forgotten(life: Life) -> None:
    life.target.execute(
        "with copied as ("
        "insert into cdc.downstream_model (model_name, name, project, declaration, routine, indexes) "
        "select 'dropped.named', name, project, declaration, 'dropped.apply(text)', '[]' "
        "from cdc.downstream_model where name = 'named' returning declaration) "
        "insert into cdc.downstream_input (model_name, input_name) "
        "select distinct 'dropped.named', value ->> 'model' "
        "from copied cross join jsonb_array_elements(declaration -> 'inputs')"
    )
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.must_be_exact()
    assert life.target.value("select count(*) from cdc.downstream_model where name = 'named'") == 1


def test_two_threads_of_dbt_install_models_of_one_slot_without_a_deadlock(life: Life) -> None:
    install = (
        "select cdc.install_model(slot_name, model_name, declared_name, declaration, routine,"
        " needs, false, engine, '{}') from cdc.installed_model where declared_name = %s"
    )
    with life.other_session() as one, ThreadPoolExecutor() as pool:
        one.ask(
            "select pg_advisory_xact_lock(cdc.lock_key('reader', cdc.reader_name(%s)))",
            (life.slot,),
        )
        other = pool.submit(life.target.execute, install, "shops")
        waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory'"
        wait_until(lambda: one.ask(waiting) == [(1,)], "it waits")
        # It may change the row of every model of the slot, also that of the other's.
        one.ask(install, ("sales",))
        one.commit()
        other.result()


LINES = "from {lines} as a inner join"
BELOW: dict[str, tuple[str, dict[str, Any]]] = {
    "lines": ("select id, shop_id, amount as units from {sale}", {}),
    "names": ("select id, name from {shop}", {}),
    "sizes": ("select shop_id, amount as units, count(*) as n from {sale} group by 1, 2", {}),
}
NARROW = f"select s.name, count(*) as n {LINES} {{names}} as s on s.id = a.shop_id group by 1"
WIDE = f"select count(*) as n {LINES} {{sizes}} as s on s.shop_id = a.shop_id and s.units = a.units"
LARGEST = "select id, max(units) as units from {lines} group by 1"
INDEXES = (
    "select substring(pg_get_indexdef(indexrelid) from 'btree (.*)') from pg_index"
    " where indrelid = 'analytics.lines'::regclass and not indisunique"
)


def test_no_index_is_made_twice_nor_taken_from_a_model_that_needs_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    with empty_database(cluster) as database:
        system = QuerySystem(database, tmp_path)
        system.source.execute(TABLES)
        session = connect(database.cluster.dsn(database.name))

        def kept(**models: str) -> set[str]:
            system.keep({**BELOW, **{name: (query, {}) for name, query in models.items()}}, False)
            with session.cursor() as cursor:
                cursor.execute("select distinct state from cdc.apply(%s)", (system.slot,))
                assert cursor.fetchall() == [("follows",)]
                cursor.execute(INDEXES)
                return {text for (text,) in cursor.fetchall()}

        system.keep(BELOW)
        system.target.take_baseline()
        with closing(session):
            assert kept(narrow=NARROW) == {"(shop_id)"}
            assert kept(narrow=NARROW, other=NARROW) == {"(shop_id)"}
            assert kept(narrow=NARROW) == {"(shop_id)"}
            # The wide one serves both, and stays for the narrow one alone.
            assert kept(narrow=NARROW, wide=WIDE) == {"(shop_id, units)"}
            assert kept(narrow=NARROW) == {"(shop_id, units)"}
            assert kept(largest=LARGEST) == {"(id, units)"}
            assert kept() == set()
            assert session.notices == []


def test_what_spark_applies_is_told_too(life: Life) -> None:
    life.keep({**MODELS, "sales": (MODELS["sales"][0], {"engine": "spark"})})
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.catch_up()
    life.spark_job("spark-submit spark/apply.py --once")
    amounts = "select sum(amount)::int from "
    assert life.target.value(amounts + "analytics.sales") == life.source.value(amounts + "lab.sale")
    assert life.differing() == {}
    assert life.target.execute("select reason from cdc.to_fill") == []


def test_a_changed_input_goes_on_as_it_was_until_its_baseline_is_there(life: Life) -> None:
    changed = {
        **MODELS,
        "sales": (MODELS["sales"][0].replace("group by", "where id > 9 group by"), {}),
    }
    life.keep(changed, is_refresh=False)
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.catch_up()
    state, reason, _ = life.state("sales")
    assert state == "follows" and reason is not None and "its query has changed" in reason
    assert life.differing() == {}
    life.spark_job("spark-submit spark/seed.py --model sales")
    life.must_be_exact()
    assert life.target.value("select sum(n) from analytics.sales") == 31
    life.source.execute("update lab.sale set shop_id = 2 where id % 3 = 0")
    life.must_be_exact()


def test_a_changed_query_is_filled_again_with_its_new_columns(life: Life) -> None:
    query = f"select s.name, count(*) as pairs, sum(a.amount) as amount, sum(a.n) as n {JOINED} group by 1"
    most = MODELS["most"][0].replace("max(amount)", "max(pairs)")
    life.keep({**MODELS, "named": (query, {}), "most": (most, {})}, is_refresh=False)
    state, reason, _ = life.state("named")
    assert state == "waits"
    assert reason == "it is to be filled from its inputs: its query has changed"
    life.source.execute("update lab.sale set amount = amount + 1 where id < 20")
    life.must_be_exact()
    indexes = "select count(*) from pg_indexes where indexname ~ '^waltally_[0-9a-f]{32}$'"
    assert life.target.value(indexes) >= 1
    life.keep({name: MODELS[name] for name in ("sales", "shops")})
    assert life.target.value(indexes) == 0
    assert life.target.value("select count(*) from cdc.downstream_model") == 0


def test_setup_replaces_the_functions_while_models_are_applied(life: Life) -> None:
    dsn = life.target.cluster.dsn(life.target.name)
    is_over = threading.Event()

    def ask(query: str) -> None:
        with closing(connect(dsn)) as session:
            while not is_over.is_set():
                session.ask(query, {"slot": life.slot})

    calls = [f"select from cdc.apply(%(slot)s, part => '{part}')" for part in ("all", "behind")]
    with ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask, query) for query in (*calls, "table cdc.model_state")]
        try:
            life.target.execute(
                "create or replace function cdc.functions_id() returns text language sql"
                " immutable parallel safe as $$ select 'others' $$"
            )
            assert "made the functions of schema cdc" in life.must("setup")
        finally:
            is_over.set()
        for each in asking:
            each.result()
    life.must_be_exact()


def test_a_log_that_begins_again_waits_for_who_applies_the_former_one(life: Life) -> None:
    """As at a source that was restored: the new log begins before the end of the former one."""
    positions = "select min(applied_lsn), max(applied_lsn) from cdc.model_watermark"
    ((before, _),) = life.target.execute(positions)
    life.source.execute("insert into lab.sale values (100, 1, 1, 'x')")
    life.must("run", "--once")

    def begin() -> None:
        with (
            closing(connect(life.dsns[0])) as asking,
            closing(connect_target(life.loader_settings)) as own,
        ):
            server = read_server(asking)
            with own.transaction():
                write_record(own, server, lsn.parse(before) + 1)

    with life.other_session() as other, ThreadPoolExecutor() as pool:
        other.ask("select from cdc.apply(%s)", (life.slot,))
        beginning = pool.submit(begin)
        waiting = "select count(*) > 0 from pg_locks where not granted and locktype = 'advisory'"
        wait_until(lambda: beginning.done() or life.target.value(waiting), "it waits")
        other.commit()
        beginning.result()
    assert life.target.execute(positions) == [("0/0", "0/0")]


def test_a_name_with_a_dot_is_that_of_one_table(life: Life) -> None:
    ask = """select cdc.require_table('analytics."na.med"', 'analytics.na.med')"""
    life.target.execute(ask)
    life.target.execute('create schema "analytics.na"; create table "analytics.na".med ()')
    with pytest.raises(psycopg2.Error, match="are one name to waltally"):
        life.target.execute(ask)
    life.target.execute('drop schema "analytics.na" cascade')


def test_a_table_that_a_crash_would_empty_holds_no_model(life: Life) -> None:
    life.target.execute("create unlogged table analytics.fast (n bigint)")
    ask = "select cdc.require_table('analytics.fast')"
    with pytest.raises(psycopg2.Error, match=r"analytics\.fast is unlogged") as refused:
        life.target.execute(ask)
    life.target.execute(str(refused.value.diag.message_hint))
    life.target.execute(f"{ask}; drop table analytics.fast")


def test_no_routine_of_a_former_query_is_left(life: Life) -> None:
    made = "select count(*) from pg_proc where pronamespace = 'analytics'::regnamespace"
    begun = life.target.value(made)
    changed = {**MODELS, "named": (MODELS["named"][0].replace("sum(a.n)", "2 * sum(a.n)"), {})}
    life.keep(changed, is_refresh=False)
    assert life.target.value(made) == begun
    changed["sales"] = MODELS["sales"][0].replace("count(*)", "2 * count(*)"), {}
    life.keep(changed, is_refresh=False)
    life.catch_up()
    # The former query of a model over a table goes on until the seed.
    assert life.target.value(made) == begun + 2
    life.target.execute("truncate cdc.baseline")
    life.target.take_baseline()
    life.catch_up()
    life.keep(changed, is_refresh=False)
    assert life.target.value(made) == begun


def test_more_than_a_thousand_rows_that_its_query_cannot_take_stop_a_model_alone(
    life: Life,
) -> None:
    # No two rows look alike to it.
    tenths = "select 10 / amount as part, sum(id) as ids from {sale} group by 1"
    life.keep({**MODELS, "tenths": (tenths, {})}, is_refresh=False)
    seed = "spark-submit spark/seed.py --model tenths"
    life.spark_job(seed)
    life.must_be_exact()
    assert life.state("tenths") == ("follows", None, None)
    life.source.execute("insert into lab.sale select n, 1, 0 from generate_series(101, 1101) as n")
    life.must_be_exact()
    state, reason, remedy = life.state("tenths")
    assert state == "failed" and remedy is not None and "spark/seed.py" not in remedy
    assert "cannot take more than 1,000 rows of one transaction" in str(reason)
    # A seed ends as the stream does.
    with pytest.raises(LoaderError, match=r"cannot take more than 1,000 rows of lab\.sale"):
        life.spark_job(seed)


NAMES = ("a(b)", "x__apply_y", "my_waltally_key", *(f"{'q' * 47}{last}" for last in "xy"), "é" * 24)
"""Of models: like a function's signature, like one of ours, like a key's, alike and long."""
OVER_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "over(them)": (
        "select a.n, count(b.n) as found from {a(b)} as a left join {x__apply_y} as b"
        " on b.my_waltally_key = a.my_waltally_key group by 1",
        {},
    )
}


def test_whatever_models_are_called_each_is_built_again_and_leaves_no_function(
    cluster: Cluster, tmp_path: Path
) -> None:
    with empty_database(cluster) as source:
        source.execute(TABLES)
        system = QuerySystem(source, tmp_path)
        for key in ("shop_id", "amount"):
            more = "note, " if key == "amount" else ""
            query = f"select {key} as my_waltally_key, {more}count(*) as n from {{sale}} group by "
            system.keep({**{name: (query + more + "1", {}) for name in NAMES}, **OVER_NAMES})
            source.execute("delete from cdc.baseline")
            source.take_baseline()
            source.execute("insert into lab.sale values (1, 1, 2, 'x'), (2, 1, 3, 'y')")
            system.catch_up()
            for name in NAMES:
                asked = f'select my_waltally_key from analytics."{name}" order by 1'
                expected = {"shop_id": [(1,)], "amount": [(2,), (3,)]}[key]
                assert source.execute(asked) == expected, name
            source.execute("delete from lab.sale")
            system.catch_up()
            states = "select distinct state from cdc.model_state"
            assert source.execute(states) == [("follows",)]
        system.must("teardown", "--drop-data", "--yes")
        of_models = "select proname from pg_proc where pronamespace = 'analytics'::regnamespace"
        assert source.execute(of_models) == []


def test_teardown_takes_routines_and_indexes_and_leaves_the_rows(life: Life) -> None:
    named = life.target.value("select count(*) from analytics.named")
    life.must("teardown", "--drop-data", "--yes")
    assert life.target.value("select to_regnamespace('cdc')::text") is None
    assert life.target.value("select count(*) from analytics.named") == named
    left = (
        "select (select count(*) from pg_indexes where indexname ~ '^waltally_[0-9a-f]{32}$')"
        " + (select count(*) from pg_proc where pronamespace = 'analytics'::regnamespace)"
    )
    assert life.target.value(left) == 0
