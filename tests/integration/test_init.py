"""`loader init` leads from a table to a live fact."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import LOADER, Database
from tests.support.commands import sentence


@pytest.fixture
def orders(source: Database) -> Database:
    source.execute(
        "create type state as enum ('open', 'paid');"
        'create table "Orders" (id bigint primary key, state state not null, channel text, '
        "amount numeric(10, 2), placed_at timestamptz);"
        'alter table "Orders" replica identity full;'
        "insert into \"Orders\" select n, 'open', case when n % 3 > 0 then 'web' end, n, now() "
        "from generate_series(1, 300) as n;"
        'analyze "Orders"'
    )
    return source


def init(database: Database, folder: Path, *words: str) -> str:
    return database.must("init", str(folder), "--table", 'public."Orders"', *words)


def test_the_project_that_it_writes_is_registered_and_built_exactly(
    orders: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "facts"
    said = init(orders, folder, "--by", "state,channel")
    assert "by channel (text, about 1 values)" in said
    assert "spark-submit spark/seed.py" in said
    assert (folder / "spark" / "seed.py").exists()
    environment = orders.environment(
        LOADER_MANIFEST="", DBT_PROJECT_DIR=str(folder), DBT_PROFILES_DIR=str(folder)
    )
    dbt = [str(LOADER.parent / "dbt"), "deps", "--no-send-anonymous-usage-stats"]
    subprocess.run(dbt, cwd=folder, env=environment, check=True, capture_output=True)
    orders.execute('truncate "Orders"')
    assert "registered ft_orders" in orders.must("setup", **environment)
    orders.execute(
        "insert into \"Orders\" (id, state, channel) values (1, 'open', 'web'), (2, 'open', null);"
        "update \"Orders\" set state = 'paid' where id = 1;"
        "insert into \"Orders\" (id, state) values (3, 'open')"
    )
    orders.dbt("run", "--project-dir", str(folder), **environment)
    orders.must("run", "--once", "--build", **environment)
    assert orders.execute(
        "select state, channel, row_count from analytics.ft_orders where row_count > 0 order by 1"
    ) == [("open", None, 2), ("paid", "web", 1)]


def test_a_table_that_is_not_there_is_one_sentence_with_those_that_are(
    orders: Database, tmp_path: Path
) -> None:
    orders.execute("create schema ours; create table ours.slot_position (position_lsn pg_lsn)")
    done = orders.loader("init", str(tmp_path / "facts"), "--table", "nowhere")
    assert done.returncode == 2
    assert "no table public.nowhere" in sentence(done.stderr)
    assert "public.Orders" in done.stderr
    assert "ours." not in done.stderr, "what setup stages is no application's table"
    assert not (tmp_path / "facts").exists()


@pytest.mark.parametrize("name", ["public.orders,public.lines", "public.", '"a".b.c', ".b"])
def test_what_is_no_table_is_refused(orders: Database, tmp_path: Path, name: str) -> None:
    done = orders.loader("init", str(tmp_path / "facts"), "--table", name)
    assert done.returncode == 2
    assert "is no table" in sentence(done.stderr)


def test_a_folder_with_files_is_left_alone(orders: Database, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    done = orders.loader("init", str(tmp_path), "--table", 'public."Orders"', "--by", "state")
    assert done.returncode == 2
    assert "has files already" in sentence(done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
