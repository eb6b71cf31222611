"""What `loader init` refuses, and how it adds a model.

tests/acceptance/test_readme.py leads from a table to a live model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.databases import Database


@pytest.fixture
def orders(source: Database) -> Database:
    source.execute(
        "create type state as enum ('open', 'paid');"
        'create table "Orders" (id bigint primary key, state state not null, channel text, '
        "amount numeric(10, 2), placed_at timestamptz)"
    )
    return source


def test_what_cannot_be_counted_is_one_sentence_with_the_tables_that_can(
    orders: Database, tmp_path: Path
) -> None:
    orders.execute("create schema ours; create table ours.slot_position (position_lsn pg_lsn)")
    project = tmp_path / "models"
    for table, words in (
        ("nowhere", "no table public.nowhere"),
        ("pg_catalog.pg_class", "no slot has its changes"),
    ):
        said = orders.refused_with(2, words, "init", str(project), "--table", table)
        assert "public.Orders" in said
        assert "ours." not in said, "what setup stages is no application's table"
    assert not project.exists()
    project.mkdir()
    (project / "packages.yml").write_text("packages: []\n")
    words = "has files already, and is no project that"
    orders.refused_with(2, words, "init", str(project), "--table", 'public."Orders"')
    assert [path.name for path in project.iterdir()] == ["packages.yml"]


LINKS = {".waltally", "spark", "dbt_packages"}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not LINKS & set(path.relative_to(folder).parts)
    }


def test_a_model_is_added_and_no_file_that_is_there_changes(
    orders: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.execute(
        "create table payments (id bigint primary key, is_open boolean, fee_cents int);"
        "insert into payments select n, n % 2 = 0, n from generate_series(1, 2000) as n;"
        "analyze payments"
    )
    project = tmp_path / "models"
    orders.must("init", str(project), "--table", 'public."Orders"')
    before = contents(project)
    monkeypatch.chdir(project)
    said = orders.must("init", ".", "--table", "payments", "--by", "is_open,fee_cents")
    assert "fee_cents has many values: the model may have nearly as many rows" in said
    assert "  cd " not in said
    assert "spark-submit spark/seed.py --model ft_payments" in said
    after = contents(project)
    assert after.keys() - before.keys() == {"models/ft_payments.sql", "models/ft_payments.yml"}
    sources = "models/sources.yml"
    assert {name: after[name] for name in before} == {**before, sources: after[sources]}
    assert after[sources] == f"{before[sources]}    - name: payments\n"

    for table in ("payments", 'public."Orders"'):
        orders.refused_with(2, "already", "init", str(project), "--table", table)
    assert contents(project) == after
    orders.dbt("parse", DBT_PROJECT_DIR=str(project), DBT_PROFILES_DIR=str(project))


def test_tables_of_one_name_have_models_of_their_own(source: Database, tmp_path: Path) -> None:
    source.execute(
        "create schema sales; create table visits (id bigint primary key, owner_id bigint);"
        "create table sales.visits (like visits);"
        "create table sales_visits (id bigint primary key, is_open boolean);"
        'create schema "Sales"; create table "Sales".visits (like sales_visits)'
    )
    project = tmp_path / "models"
    for table in ("visits", "sales.visits"):
        source.must("init", str(project), "--table", table, "--by", "owner_id")
    models = {Path(name).stem: text for name, text in contents(project).items() if ".sql" in name}
    assert models.keys() == {"ft_visits", "ft_sales_visits"}
    assert "source('public', 'visits')" in models["ft_visits"]
    assert "source('sales', 'visits')" in models["ft_sales_visits"]
    said = source.must("init", str(project), "--table", "sales_visits")
    assert "ft_public_sales_visits counts" in said
    words = "ft_visits or ft_sales_visits, and other models have"
    source.refused_with(2, words, "init", str(project), "--table", '"Sales".visits')
