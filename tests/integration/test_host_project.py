"""A user's own dbt project with waltally as a package: registered and built, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Database, wait_until
from tests.support.commands import SHORT_PAUSES, RunningLoader, profiles, sentence
from tests.support.project import host_project

NOTES = """
{{ waltally.fact(
    tables={'rows': 'public.unrelated'},
    dimensions={'note': 'text'},
    measures={'row_count': {'count': 'rows'}},
) }}
"""
MINE = "{{ config(materialized='table') }} select 1 as one"
INCREMENTAL = "{{ config(materialized='incremental') }} select 1 as one"


@pytest.fixture
def host(source: Database, tmp_path: Path) -> dict[str, str]:
    """The environment of a project that counts notes and has models of its own."""
    source.execute("alter table unrelated replica identity full")
    models = {"ft_notes": NOTES, "mine": MINE, "my_increments": INCREMENTAL}
    return {
        "LOADER_MANIFEST": "",
        "DBT_PROJECT_DIR": str(host_project(tmp_path, models)),
        "DBT_SCHEMA": "elsewhere",
        "HOME": str(tmp_path),
    }


def test_setup_parses_the_project_before_there_is_a_profile(
    source: Database, host: dict[str, str]
) -> None:
    assert "registered ft_notes\n" in source.must("setup", **host)
    assert source.execute("select fact_name, relation_schema, relation_name from cdc.fact") == [
        ("ft_notes", "elsewhere", "ft_notes")
    ]
    assert source.must("setup", "--check", **host) == "Everything is set up.\n"
    assert not (Path(host["DBT_PROJECT_DIR"]) / "target").exists(), "it leaves dbt's output alone"


def test_run_builds_what_waltally_feeds_and_no_other_model(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    source.must("setup", **host)
    source.execute("insert into unrelated (note) values ('a'), ('a'), ('b')")
    source.must("run", "--once", "--build", **{**host, **profiles(tmp_path)})
    counted = source.execute("select note, row_count from elsewhere.ft_notes order by note")
    assert counted == [("a", 2), ("b", 1)]
    built = source.execute("select tablename::text from pg_tables where schemaname = 'elsewhere'")
    assert {name for (name,) in built} == {"ft_notes", "rejected_changes"}


def test_a_fact_that_is_added_while_a_loader_builds_is_built_by_it(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    source.execute("alter table unrelated add kind text default 'new'")
    source.must("setup", **host)
    environment = source.environment(**{**host, **profiles(tmp_path)})
    insert = "insert into unrelated (note) values ('a')"
    count = "select coalesce(sum(row_count), 0) from elsewhere.{}"
    with RunningLoader(environment, tmp_path / "log", "--build", limits=SHORT_PAUSES) as running:
        source.execute(insert)
        built = "select to_regclass('elsewhere.ft_notes') is not null"
        wait_until(lambda: source.value(built), running.said())
        models = Path(host["DBT_PROJECT_DIR"]) / "models"
        (models / "ft_kinds.sql").write_text(NOTES.replace("note", "kind"))
        source.must("setup", **host)
        wait_until(
            lambda: "has changed what is to be followed" in running.said(), "it notices the setup"
        )
        source.execute(insert)
        built = "select to_regclass('elsewhere.ft_kinds') is not null"
        wait_until(lambda: source.value(built), running.said())
        wait_until(lambda: source.value(count.format("ft_notes")) == 2, running.said())
        running.end()
    assert source.value(count.format("ft_kinds")) == 2, "its table was followed from the start"


def test_a_project_that_dbt_cannot_parse_is_one_sentence(
    source: Database, host: dict[str, str]
) -> None:
    wrong = Path(host["DBT_PROJECT_DIR"]) / "models" / "wrong.sql"
    wrong.write_text("select * from {{ ref('missing') }}")
    for command in (("setup",), ("setup", "--check")):
        done = source.loader(*command, **host)
        assert done.returncode == 28
        assert "missing" in sentence(done.stderr)
        assert "`dbt parse`" in done.stderr
    assert source.value("select to_regnamespace('cdc') is null")
