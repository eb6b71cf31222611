"""What is installed for models, and who makes it: routines, indexes, names, setup and teardown."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from loader.setup.begin_log import write_record
from loader.source.asking import read_server
from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, connect
from tests.queries.life import JOINED, MODELS, TABLES, Life
from waltally import lsn
from waltally.database import connect_target


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
    level = "select level from cdc.dependent_model where model_name = 'high'"
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
        life.install_dependents("low_one")
        life.target.connection = own
        other = pool.submit(life.install_dependents, "low_two")
        waiting = "select count(*) from pg_locks where not granted"
        wait_until(lambda: one.ask(waiting) == [(1,)], "it waits")
        one.commit()
        other.result()
    assert life.target.value(level) == 4


def test_what_no_model_may_read_is_refused_in_setup(life: Life) -> None:
    refused: dict[str, tuple[str, dict[str, Any]]] = {
        "other": ("select shop_id from {sale}", {"materialized": "view"}),
        "above": ("select shop_id, count(*) as n from {other} group by 1", {}),
        "mixed": (f"select n.note {JOINED} join {{sale}} n on n.id = s.id group by 1", {}),
    }
    life.declare({**MODELS, **refused})
    _, said = life.refused("setup")
    for sentence in (
        "above: analytics.other is no model of waltally: its changes are not seen",
        "`materialized='ephemeral'` for it, which dbt writes into the query",
        "mixed: The query reads sources beside models, which change at other moments",
        "the query over models by ref(), with a rows model of each source: of lab.sale"
        " `select id, note from {{ source(...) }}`, 32 bytes a row and the values of note",
    ):
        assert sentence in said
    life.keep(MODELS)


def test_two_threads_of_dbt_install_models_of_one_slot_without_a_deadlock(life: Life) -> None:
    install = (
        "select cdc.install_model(slot_name, relation_schema, relation_name, model_name,"
        " declaration, reading, routine, needs, false, false, engine, '{}', project_name, target_schema)"
        " from cdc.installed_model where model_name = %s"
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


def test_setup_replaces_the_functions_while_models_are_applied(life: Life) -> None:
    dsn = life.target.cluster.dsn(life.target.name)
    is_over = threading.Event()

    def ask(query: str) -> None:
        with closing(connect(dsn)) as session:
            while not is_over.is_set():
                session.ask(query, {"slot": life.slot})

    calls = [
        f"select from cdc.apply(%(slot)s, part => '{part}')" for part in ("all", "catching up")
    ]
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
    assert life.target.value(made) == begun + 4
    life.target.execute("truncate cdc.baseline")
    life.target.take_baseline()
    life.catch_up()
    life.keep(changed, is_refresh=False)
    assert life.target.value(made) == begun


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
        source.execute("insert into lab.sale values (1, 1, 2, 'x')")
        system.catch_up()
        said = system.must("teardown", "--drop-data", "--yes")
        assert "the models' tables stay, with the rows that they had: analytics." in said
        left = (
            "select proname from pg_proc where pronamespace = 'analytics'::regnamespace union all "
            "select indexname from pg_indexes where indexname ~ '^waltally_[0-9a-f]{32}$'"
        )
        assert source.execute(left) == []
        assert source.execute("select to_regnamespace('cdc')::text") == [(None,)]
        assert source.execute('select n from analytics."a(b)"') == [(1,)]


@pytest.mark.slow
def test_the_widest_models_are_kept(cluster: Cluster, tmp_path: Path) -> None:
    texts, numbers = [f"t{n}" for n in range(32)], [f"n{n}" for n in range(368)]
    columns = [f"{name} text default 0" for name in texts]
    columns += [f"{name} bigint default 1" for name in numbers]
    sums = ", ".join(f"sum({name}) as {name}" for name in numbers[1:])
    places = ", ".join(str(n) for n in range(1, 33))
    with empty_database(cluster) as database:
        database.execute(
            f"create schema lab; create table lab.wide ({', '.join(columns)}, "
            f"primary key ({', '.join(texts)})); alter table lab.wide replica identity full"
        )
        system = QuerySystem(database, tmp_path)
        system.keep(
            {
                "sums": (f"select {', '.join(texts)}, {sums} from {{wide}} group by {places}", {}),
                "rows": ("select * from {wide}", {}),
            }
        )
        database.take_baseline()
        system.catch_up()
        database.execute("insert into lab.wide (t0) values ('a'), ('b')")
        database.execute("update lab.wide set n367 = 7 where t0 = 'a'")
        database.execute("delete from lab.wide where t0 = 'b'")
        system.catch_up()
        assert system.differing() == {}
        assert database.value("select count(*) from analytics.rows") == 1
