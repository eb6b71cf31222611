"""`loader init --query` as a person uses it: what it writes and says, and when it writes nothing."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.keep import Keep
from testkit.commands import LOADER, RunningLoader, sentence, wait_until
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from testkit.spark_jobs import run_job
from tests.integration.test_init import contents

SALES = """
select c.country, (o.placed_at at time zone 'Europe/Berlin')::date as day, count(*) as orders, sum(o.amount) as sales
from orders as o join customers as c on c.id = o.customer_id
where o.state = 'paid' and o.shop_id = 1 /* :shop */
group by 1, 2
having count(*) > 1
order by sales desc
limit 10;
"""

DAYS = """
select placed_at::date as day, count(*) as orders, sum(amount) as sales
from orders
where customer_id = 7 and state = 'paid' and placed_at >= '2026-11-01' /* :from */
group by 1
"""


@pytest.fixture
def shop(source: Database) -> Database:
    source.execute(
        "create table customers (id bigint primary key, country text not null);"
        "create table orders (id bigint primary key, customer_id bigint not null, shop_id int,"
        " state text, amount numeric(10, 2), placed_at timestamptz not null);"
        "insert into customers select n, 'land ' || n % 3 from generate_series(1, 30) as n;"
        "insert into orders select n, n % 30 + 1, n % 2, 'paid', n % 70, '2026-11-01 12:00+00'"
        " from generate_series(1, 300) as n;"
        "alter table orders replica identity full;"
        "analyze customers, orders"
    )
    return source


def asked(folder: Path, text: str) -> str:
    path = folder / "sales.sql"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("placeholder", "name"), [("%(shop)s", "shop"), (":shop", "shop"), ("$1", "1")]
)
def test_a_placeholder_is_kept_for_the_application(
    shop: Database, tmp_path: Path, placeholder: str, name: str
) -> None:
    query = asked(tmp_path, SALES.replace("1 /* :shop */", placeholder))
    code, said = shop.refused("init", str(tmp_path / "live"), "--query", query)
    assert code == 2
    assert f"The proof needs a value of {placeholder}\n" in said and f"--value {name}=" in said
    said = shop.must("init", str(tmp_path / "live"), "--query", query, "--value", f"{name}=1")
    assert "same rows: 3, missing 0" in said
    files = contents(tmp_path / "live")
    assert f"shop_id = {placeholder}" in files["analyses/sales.sql"]
    assert "models/sales.sql" not in files


def test_a_query_may_come_by_standard_input(shop: Database, tmp_path: Path) -> None:
    words = [str(LOADER), "init", str(tmp_path / "live"), "--query", "-"]
    done = subprocess.run(
        words, input=SALES, env=shop.environment(), capture_output=True, text=True, check=True
    )
    assert "query: same rows: 3, missing 0, surplus 0" in done.stdout
    assert "models/query.sql" in contents(tmp_path / "live")


def test_a_difference_shows_rows_and_the_view_and_writes_nothing(
    shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(keep: Keep) -> list[pb.Node]:
        tree.set_where(keep.select, [])
        return []

    monkeypatch.setattr(Keep, "_take_own_conditions", lose)
    text = "select shop_id, count(*) as n from orders where amount < 30 group by 1"
    code, said = shop.refused("init", str(tmp_path / "live"), "--query", asked(tmp_path, text))
    assert code == 2
    assert "sales: same rows: 0, missing 2, surplus 2 (all rows)" in said
    assert "the query alone has (" in said and "(1,70)" in said and "(1,150)" in said
    assert "The view would be: SELECT" in said and "FROM sales_counts" in said
    assert not (tmp_path / "live").exists()


ENDLESS = """
select state, count(*) as n from orders group by 1
having count(*) > (select count(*) from generate_series(1, 1000000000000) as g)
"""
NOT_READY = (
    "sales_2 was being compared when the source interrupted the transaction: canceling statement due"
    " to {}. Compared so far: sales: same rows: 1, missing 0, surplus 0 (all rows)"
)


def test_a_proof_has_a_limit_of_time_and_says_what_was_compared(
    shop: Database, tmp_path: Path
) -> None:
    query = asked(tmp_path, f"select count(*) as n from orders; {ENDLESS}")
    words = ("init", str(tmp_path / "live"), "--query", query, "--timeout", "1s")
    code, said = shop.refused(*words)
    assert code == 29 and NOT_READY.format("statement timeout") in said, said
    assert "--timeout 1h" in said
    assert not (tmp_path / "live").exists()


PROOF = (f"select count(*) as n from orders; {ENDLESS}", "%1000000000000%as materialized%")
COMPILED = (
    f"select state, count(*) as n from orders where {' and '.join(f'id <> {n}' for n in range(2000))} group by 1",
    "%compile_model%",
)
PRICED = (
    "select md5(repeat('x', 60000) || state) as state, count(*) as n from orders group by 1",
    "select count(q) from (%",
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("text", "statement", "reason"),
    [
        (*PROOF, NOT_READY.format("user request")),
        (*COMPILED, "due to user request"),
        (*PRICED, "due to user request"),
    ],
    ids=["proof", "compiler", "price"],
)
def test_a_signal_ends_the_command_and_its_query(
    shop: Database,
    tmp_path: Path,
    number: signal.Signals,
    text: str,
    statement: str,
    reason: str,
) -> None:
    words = [str(LOADER), "init", str(tmp_path / "live"), "--query", asked(tmp_path, text)]
    shop.execute(
        "insert into orders select n, 1, 2, 'paid', 1, now() from generate_series(400, 11000) as n;"
        "analyze orders"
    )
    runs = (
        "select count(*) from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()"
        f" and query like '{statement}'"
    )
    with subprocess.Popen(
        words, env=shop.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        wait_until(lambda: shop.value(runs) == 1, "the statement runs")
        running.send_signal(number)
        _, said = running.communicate()
    assert running.returncode == 29 and reason in sentence(said), said
    assert shop.value(runs) == 0
    assert not (tmp_path / "live").exists()


ZONE = "--timezone UTC "


@pytest.mark.parametrize(
    ("text", "words", "more"),
    [
        ("select string_agg(country, ',') from customers", "string_agg() needs each row", ""),
        ("select count(*) from orders where shop_id = 9 group by state", "proves nothing", ""),
        ("select \0 1", "a NUL byte", ""),
        (DAYS, "of which time zone", ""),
        ("select max(placed_at)::text from orders", "a session with another TimeZone", ""),
        (DAYS, "--parameter amount", ZONE + "--parameter amount"),
        (DAYS, "--ignore-deletes public.no", ZONE + "--ignore-deletes public.no"),
    ],
)
def test_what_is_not_kept_writes_nothing(
    shop: Database, tmp_path: Path, text: str, words: str, more: str
) -> None:
    query = asked(tmp_path, text)
    code, said = shop.refused("init", str(tmp_path / "live"), "--query", query, *more.split())
    assert (code, words in said, "Try: " in said) == (2, True, True), said
    assert not (tmp_path / "live").exists()


def test_a_view_takes_no_model_s_name(shop: Database, tmp_path: Path) -> None:
    paths = []
    (tmp_path / "more").mkdir()
    names = (("sales", "shop_id = 1"), ("sales_counts", "shop_id = 0"), ("more/sales", "id > 9"))
    for name, where in names:
        path = tmp_path / f"{name}.sql"
        path.write_text(f"select state, count(*) as n from orders where {where} group by 1")
        paths += ["--query", str(path)]
    shop.must("init", str(tmp_path / "live"), *paths)
    files = contents(tmp_path / "live")
    assert "ref('sales_counts_2')" in files["models/sales.sql"]
    assert "shop_id = 1" in files["models/sales_counts_2.sql"]
    assert "ref('sales_counts_counts')" in files["models/sales_counts.sql"]
    assert "ref('sales_2_counts')" in files["models/sales_2.sql"], "of two files of one name"


def test_a_view_s_enum_has_to_be_in_the_target(
    shop: Database, tmp_path: Path, cluster: Cluster
) -> None:
    shop.execute("create type mood as enum ('good', 'bad'); alter table orders add mood mood")
    query = asked(tmp_path, "select mood, count(*) as n from orders group by 1")
    with empty_database(cluster) as elsewhere:
        there = ("--target", cluster.dsn(elsewhere.name))
        code, said = shop.refused("init", str(tmp_path / "live"), "--query", query, *there)
        assert code == 2 and 'the enum "public"."mood", which the target has not' in said
        elsewhere.execute("create type mood as enum ('good', 'bad')")
        shop.must("init", str(tmp_path / "live"), "--query", query, *there)


def test_two_queries_share_the_rows_that_they_join(shop: Database, tmp_path: Path) -> None:
    second = SALES.replace("o.state = 'paid' and ", "").replace("country", "id")
    shop.must("init", str(tmp_path / "live"), "--query", asked(tmp_path, SALES + second))
    names = [Path(name).stem for name in contents(tmp_path / "live") if "rows.sql" in name]
    assert names == ["customers_rows"]
    # What a later call needs too is kept once, and a wider need widens it.
    later = tmp_path / "later.sql"
    wider = SALES.replace("c.country", "c.city")
    shop.execute("alter table customers add city text default 'Berlin'")
    later.write_text(second + wider)
    said = shop.must("init", str(tmp_path / "live"), "--query", str(later))
    files = contents(tmp_path / "live")
    assert [name for name in files if "rows" in name and name.endswith(".sql")] == [
        "models/customers_rows.sql"
    ]
    assert "city" in files["models/customers_rows.sql"]
    assert "country" in files["models/customers_rows.sql"]
    assert "customers_rows is written anew" in said
    assert "ref('sales_2_counts')" in files["models/later.sql"], "it is the same"


def test_tables_of_two_schemas_are_two(shop: Database, tmp_path: Path) -> None:
    shop.execute(
        "create schema b; create table b.customers as table customers;"
        "alter table b.customers add primary key (id)"
    )
    second = SALES.replace("customers as c", "b.customers as c")
    shop.must("init", str(tmp_path / "live"), "--query", asked(tmp_path, SALES + second))
    files = contents(tmp_path / "live")
    assert "source('public', 'customers')" in files["models/customers_rows.sql"]
    assert "source('b', 'customers')" in files["models/b_customers_rows.sql"]


def on_terminal(shop: Database, answers: str, *arguments: str) -> str:
    """Run `loader init` on a terminal of its own, and return what that shows."""
    ours, theirs = pty.openpty()
    os.write(ours, answers.encode())
    command = [str(LOADER), "init", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=shop.environment()
    ):
        os.close(theirs)
        return b"".join(_read(ours)).decode()


def _read(terminal: int) -> Iterator[bytes]:
    with suppress(OSError):  # the other side is closed
        while text := os.read(terminal, 4096):
            yield text
    os.close(terminal)


def test_a_terminal_is_asked_what_no_text_says(shop: Database, tmp_path: Path) -> None:
    shop.execute("delete from orders where id = 300")
    wait_until(
        lambda: (
            shop.value("select n_tup_del from pg_stat_user_tables where relname = 'orders'") > 0
        ),
        "the server has counted the deleted row",
    )
    query = asked(tmp_path, DAYS)
    said = on_terminal(shop, "y\nAsia/Tokyo\nhour\ny\n", str(tmp_path / "live"), "--query", query)
    lines = said.replace("\x1b[K", "\n").replace("]: ", "]: \n").splitlines()
    assert [line.partition(" [")[0] for line in lines if "]: " in line] == [
        "customer_id is compared with 7: does the application fill it in",
        "The time zone of the query's dates",
        "The bounds sent for placed_at begin a day, hour, minute or second",
        "Do deleted rows of public.orders stay counted, as in a purge",
    ], said
    assert said.count("splitting the query") == 3, "once, and after the two answers that matter"
    by_answers = contents(tmp_path / "live")
    model = by_answers["models/sales_counts.sql"]
    assert "ignore_deletes=['public.orders']" in model
    assert "timezone='Asia/Tokyo'" in model
    assert "date_trunc('hour', placed_at)" in model
    assert "customer_id" in model
    flags = (
        "--parameter customer_id --timezone Asia/Tokyo --grain hour --ignore-deletes public.orders"
    )
    said = on_terminal(shop, "", str(tmp_path / "same"), "--query", query, *flags.split())
    assert "]: " not in said, said
    models = {name: text for name, text in by_answers.items() if name.startswith("models")}
    same = contents(tmp_path / "same")
    assert {name: text for name, text in same.items() if name.startswith("models")} == models


def test_the_price_is_a_sample_s_and_a_model_that_saves_little_is_said_first(
    shop: Database, tmp_path: Path
) -> None:
    shop.execute(
        "create table visits (id bigint primary key, page int not null, at timestamptz not null);"
        "insert into visits select n, n % 7, now() - n * interval '1 minute'"
        " from generate_series(1, 150000) as n; analyze visits"
    )
    text = (
        "select max(page % 3) as last from visits; select id, count(*) as n from visits group by 1;"
        "select date_trunc('hour', at at time zone 'UTC') as hour, count(*) as n from visits group by 1"
    )
    query = asked(tmp_path, text)
    words = ("init", str(tmp_path / "live"), "--query", query)
    refused = shop.refused_with(2, "sales_2 costs more than it gives: it keeps about", *words)
    kept, read = (
        float(one) for one in re.findall(r"([\d.]+) MB", refused.partition("; the view reads")[0])
    )
    assert 0.5 < kept / read < 3, refused
    assert "out of id; or write it as it is by --anyway" in refused
    assert not (tmp_path / "live").exists()
    said = shop.must(*words, "--anyway").splitlines()
    assert any("of WAL to each update and delete" in line for line in said), said
    assert said[0].startswith("sales_2_counts saves little: about 1")
    assert any(line.startswith("sales_counts: about 3 rows") for line in said), said
    # Rows of an hour are stored together, so that most hours are in no block of the sample.
    (hours,) = [line for line in said if line.startswith("sales_3_counts: about")]
    assert 1_900 < float(hours.split()[2].replace(",", "")) < 3_300, "there are 2,501"


def test_a_price_knows_what_an_index_finds(shop: Database, tmp_path: Path) -> None:
    shop.execute(
        "drop table if exists visits;"
        "create table visits (id bigint primary key, guest int, page int, kind char(9), bits bit(3));"
        "insert into visits select n, n * 7919 % 30000, n % 7, 'a kind', B'101'"
        " from generate_series(1, 30000) as n;"
        "create index on visits (guest); analyze visits"
    )
    query = asked(
        tmp_path,
        "select kind, bits::text as bits, count(*) as n, sum(page) as pages from visits"
        " where guest = 7 /* :own */ group by 1, 2",
    )
    words = ("init", str(tmp_path / "live"), "--query", query, "--anyway")
    (price,) = [line for line in shop.must(*words).splitlines() if "the view reads" in line]
    rows, took, asks = re.findall(
        r"about ([\d,]+) rows? in (\S+ \S+), the query takes (\S+ \S+)", price
    )[0]
    assert int(rows.replace(",", "")) < 200, price
    # The query has an index too.
    assert took.endswith("ms") and asks.endswith("ms"), price


def test_a_query_becomes_a_project_that_follows_and_equals_it(
    shop: Database, tmp_path: Path
) -> None:
    project = tmp_path / "live"
    zone = "Europe/Berlin"
    query = asked(tmp_path, SALES)
    said = shop.must("init", str(project), "--query", query, "--timezone", zone)
    assert "sales: same rows: 3, missing 0, surplus 0 (all rows)" in said
    assert "fact over models: sales_counts_orders x customers_rows, found by customer_id" in said
    assert "live/models/sales.sql" in said
    assert "WAL" not in said, "the table writes its old values already"
    files = contents(project)
    models = {Path(name).stem for name in files if name.endswith(".sql")}
    assert models == {"sales", "sales_counts", "sales_counts_orders", "customers_rows"}
    assert {f"models/{name}.yml" for name in models} < files.keys()
    view = files["models/sales.sql"]
    assert view.startswith("{{ config(materialized='view', ")
    assert "shop_id = 1" in view and "limit 10" in view
    places = {"DBT_PROJECT_DIR": str(project), "DBT_PROFILES_DIR": str(project)}
    manifest = project / "target" / "manifest.json"
    shop.dbt("compile", **places)
    assert "sales_counts" in shop.must("setup", "--manifest", str(manifest))
    environment = shop.environment(**places, LOADER_MANIFEST=str(manifest))
    shop.execute("update customers set country = 'elsewhere' where id = 3")
    shop.dbt("build", **places)
    run_job("spark-submit spark/seed.py", environment)
    plain = SALES.replace("limit 10;", "")
    stored = "select * from analytics.sales"
    # dbt's session had another zone, where the first of November begins an hour later.
    shop.execute(f"set timezone to '{zone}'")
    with RunningLoader(environment, tmp_path / "run.log", "--build") as running:
        shop.execute(
            "insert into orders values (900, 3, 1, 'paid', 999, '2026-11-05 23:30+00'),"
            " (901, 3, 1, 'paid', null, '2026-11-05 23:30+00'),"
            " (902, 4, 1, 'paid', 50, '2026-10-31 23:30+00');"
            "update customers set country = 'land 9' where id = 2;"
            "update orders set state = 'open' where id < 40; delete from orders where id > 250;"
            "delete from customers where id = 5"
        )
        wait_until(
            lambda: {*shop.execute(stored)} == {*shop.execute(plain)}, "the view equals the query"
        )
        assert len(shop.execute(stored)) > 1
        running.end()
