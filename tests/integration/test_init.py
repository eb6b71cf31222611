"""What `loader init` refuses, and how it adds a fact.

tests/acceptance/test_readme.py leads from a table to a live fact.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.commands import sentence
from testkit.databases import Database


@pytest.fixture
def orders(source: Database) -> Database:
    source.execute(
        "create type state as enum ('open', 'paid');"
        'create table "Orders" (id bigint primary key, state state not null, channel text, '
        "amount numeric(10, 2), placed_at timestamptz)"
    )
    return source


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


def test_a_table_of_the_server_is_none_to_count(orders: Database, tmp_path: Path) -> None:
    done = orders.loader("init", str(tmp_path / "facts"), "--table", "pg_catalog.pg_class")
    assert done.returncode == 2
    assert "no slot has its changes" in sentence(done.stderr)
    assert "public.Orders" in done.stderr


@pytest.mark.parametrize("name", ["mine", "packages.yml"])
def test_a_folder_with_files_is_left_alone(orders: Database, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("packages: []\n")
    done = orders.loader("init", str(tmp_path), "--table", 'public."Orders"', "--by", "state")
    assert done.returncode == 2
    assert "has files already, and is no project that" in sentence(done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not {".waltally", "spark"} & set(path.relative_to(folder).parts)
    }


def test_a_fact_is_added_and_no_file_that_is_there_changes(
    orders: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.execute(
        "create table payments (id bigint primary key, is_open boolean, fee_cents int);"
        "insert into payments select n, n % 2 = 0, n from generate_series(1, 2000) as n;"
        "analyze payments"
    )
    project = tmp_path / "facts"
    made = orders.loader("init", str(project), "--table", 'public."Orders"')
    assert made.returncode == 0, made.stderr
    before = contents(project)
    monkeypatch.chdir(project)
    done = orders.loader("init", ".", "--table", "payments", "--by", "is_open,fee_cents")
    assert done.returncode == 0, done.stderr
    assert "fee_cents has many values: the fact may have nearly as many rows" in done.stdout
    assert "  cd " not in done.stdout
    assert "spark-submit spark/seed.py --fact ft_payments" in done.stdout
    after = contents(project)
    assert after.keys() - before.keys() == {"models/ft_payments.sql", "models/ft_payments.yml"}
    assert {name: after[name] for name in before} == before

    for table in ("payments", 'public."Orders"'):
        again = orders.loader("init", str(project), "--table", table)
        assert again.returncode == 2
        assert "already" in sentence(again.stderr)
    assert contents(project) == after
    for command in ("deps", "parse"):
        orders.dbt(command, DBT_PROJECT_DIR=str(project), DBT_PROFILES_DIR=str(project))
