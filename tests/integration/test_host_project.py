"""A user's own dbt project with waltally as a package, also where dbt is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.commands import RunningLoader, profiles, run_dbt, short_pauses, wait_until
from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.project import host_project

NOTES = """
{{ config(materialized='waltally') }}
select note, count(*) as row_count from {{ source('app', 'unrelated') }} group by 1
"""
ROLL_UP = """
{{ config(materialized='waltally') }}
select note, sum(row_count) as row_count, count(distinct note) as notes
from {{ ref('ft_notes') }} group by 1
"""
SOURCES = "sources: [{name: app, schema: public, tables: [{name: unrelated}]}]\n"
MINE = "{{ config(materialized='table') }} select 1 as one"
INCREMENTAL = "{{ config(materialized='incremental') }} select 1 as one"


@pytest.fixture
def host(source: Database, tmp_path: Path) -> dict[str, str]:
    """The environment of a project that counts notes and has models of its own."""
    source.execute("alter table unrelated replica identity full")
    models = {"ft_notes": NOTES, "mine": MINE, "my_increments": INCREMENTAL}
    project = host_project(tmp_path, models)
    (project / "models" / "sources.yml").write_text(SOURCES)
    return {
        "LOADER_MANIFEST": "",
        "DBT_PROJECT_DIR": str(project),
        "DBT_SCHEMA": "elsewhere",
        "HOME": str(tmp_path),
    }


def test_models_join_and_leave_while_a_loader_builds(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    said = source.must("setup", **host)
    assert "\nNext: `dbt build` installs" in said, "nothing of the project is read"
    checked = source.loader("setup", "--check", **host)
    to_make = "ft_notes is to be made by `dbt build`: fact of public.unrelated"
    assert (checked.stdout, checked.stderr) == (
        f"{to_make}\nEverything is set up.\n",
        "dbt parses the project\n",
    ), "dbt may need half a minute: nobody should wait without a word"
    models = Path(host["DBT_PROJECT_DIR"]) / "models"
    assert not (models.parent / "target").exists(), "it leaves dbt's output alone"
    environment = {**host, **profiles(tmp_path)}
    source.dbt("run", **environment)
    assert source.execute(
        "select model_name, relation_schema, relation_name from cdc.registered_model"
    ) == [("ft_notes", "elsewhere", "ft_notes")]
    source.take_baseline()
    source.execute("alter table unrelated add kind text default 'new'")
    log = tmp_path / "log"
    with RunningLoader(source.environment(), log, "--build", limits=short_pauses()) as running:

        def count(model: str, rows: int) -> None:
            query = f"select coalesce(sum(row_count), 0) from elsewhere.{model}"
            wait_until(lambda: source.value(query) == rows, f"{model}: {running.said()}")

        insert = "insert into unrelated (note) values ('a'), ('b')"
        source.execute(insert)
        count("ft_notes", 2)
        (models / "ft_kinds.sql").write_text(NOTES.replace("note", "kind"))
        (models / "ft_texts.sql").write_text(ROLL_UP)
        source.dbt("run", **environment)
        running.wait_for("has changed what is to be followed")
        source.execute(insert)
        count("ft_notes", 4)
        source.take_baseline()
        source.execute(insert)
        count("ft_notes", 6)
        count("ft_kinds", 2)
        rolled_up = "select note, row_count, notes from elsewhere.ft_texts order by note"
        assert source.execute(rolled_up) == [("a", 3, 1), ("b", 3, 1)]
        states = {each["name"]: each["state"] for each in source.status()["models"]}
        assert states == dict.fromkeys(("ft_notes", "ft_kinds", "ft_texts"), "follows")
        lines = source.must("stats", "ft_texts", "--by", "note").splitlines()[4:7]
        rows = [line.split() for line in lines]
        assert rows == [["a", "3", "1"], ["b", "3", "1"], ["total", "6", "null"]], "not added up"

        for model in ("ft_kinds", "ft_texts"):
            (models / f"{model}.sql").unlink()
            said = source.must("forget", model, **environment)
            assert said == f"forgot elsewhere.{model}; the table stays\n"
        source.execute(insert)
        count("ft_notes", 8)
        count("ft_kinds", 2)
        count("ft_texts", 6)
    said = source.must("teardown", "--drop-data", "--yes")
    assert said.endswith("dropped the schema cdc\ndropped the schema cdc_jobs\n")
    count("ft_notes", 8)
    source.execute("update elsewhere.ft_notes set row_count = row_count")
    assert source.execute("select * from elsewhere.rejected_changes") == []


def test_what_dbt_cannot_parse_is_one_sentence(source: Database, host: dict[str, str]) -> None:
    wrong = Path(host["DBT_PROJECT_DIR"]) / "models" / "ft_wrong.sql"
    wrong.write_text("select * from {{ ref('missing') }}")
    assert "`dbt parse`" in source.refused_with(28, "missing", "setup", "--check", **host)
    assert source.value("select to_regnamespace('cdc') is null")


def test_what_dbt_does_not_take_of_libpq_is_refused_and_not_another_server(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    """With a profile of ours, dbt and setup say which variables; the loader itself takes them."""
    host = {**host, **profiles(tmp_path), "PGHOST": "127.0.0.1,127.0.0.1"}
    several = {**host, "PGPORT": f"{source.cluster.port},{source.cluster.port}"}
    service = {**host, "PGSERVICE": "application"}
    for environment, words in (
        (several, "PGPORT with one port"),
        (service, "in place of PGSERVICE"),
    ):
        done = run_dbt(("parse",), source.environment(**environment))
        assert done.returncode and words in done.stdout + done.stderr
        said = source.refused_with(28, words, "setup", "--check", **environment)
        assert said.endswith(
            "Try: set the variables that it names, for `loader setup` and for dbt\n"
        )
    source.must("setup", **host)
    said = source.must("setup", "--check", **host)
    assert "ft_notes is to be" in said, "several hosts and one port"
    source.dbt("run", **host)


MISSING = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"


def test_without_dbt_each_command_does_its_work_and_setup_says_where_it_needs_it(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    for name in ("dbt", "pyspark"):
        package = tmp_path / "neither" / name / "__init__.py"
        package.parent.mkdir(parents=True)
        package.write_text(MISSING)
    pipeline.has_processes = True  # this one has imported dbt
    pipeline.given = {"PYTHONPATH": str(tmp_path / "neither"), "HOME": str(tmp_path)}
    project = {"LOADER_MANIFEST": "", "DBT_PROJECT_DIR": str(host_project(tmp_path, {"ft": NOTES}))}
    said = pipeline.refused_with(28, "dbt is not installed here", "setup", "--check", **project)
    assert "requirements.lock 'waltally[dbt]'; or --manifest" in said
    assert "made the slot" in pipeline.must("setup")
    pipeline.seed()
    pipeline.source.insert(3)
    pipeline.must("run", "--once", "--build")
    pipeline.must("wait", "--lsn", pipeline.position())
    pipeline.must("status")
    shown = pipeline.must("stats", "ft_service_stats").splitlines()
    assert shown[4].split() == ["3", "3", "0"]
    pipeline.must("prune", "--keep", "0s")
    assert "dropped the slot" in pipeline.must("teardown", "--drop-data", "--yes")
