"""A user's own dbt project with waltally as a package, also where dbt is not installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from testkit.commands import (
    LOADER,
    SHORT_PAUSES,
    RunningLoader,
    profiles,
    run,
    sentence,
    wait_until,
)
from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.project import host_project

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


def test_run_fills_what_dbt_has_installed(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    source.must("setup", **host)
    source.execute("insert into unrelated (note) values ('a'), ('a'), ('b')")
    facts = ("config.materialized:waltally_fact", "config.materialized:kept_table")
    source.dbt("run", "--select", *facts, **{**host, **profiles(tmp_path)})
    source.must("run", "--once", "--build")
    counted = source.execute("select note, row_count from elsewhere.ft_notes order by note")
    assert counted == [("a", 2), ("b", 1)]


def test_a_fact_that_is_added_while_a_loader_builds_joins_the_others(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    source.execute("alter table unrelated add kind text default 'new'")
    source.must("setup", **host)
    source.dbt("run", **{**host, **profiles(tmp_path)})
    insert = "insert into unrelated (note) values ('a')"
    count = "select coalesce(sum(row_count), 0) from elsewhere.{}"
    log = tmp_path / "log"
    with RunningLoader(source.environment(), log, "--build", limits=SHORT_PAUSES) as running:
        source.execute(insert)
        wait_until(lambda: source.value(count.format("ft_notes")) == 1, running.said())
        models = Path(host["DBT_PROJECT_DIR"]) / "models"
        (models / "ft_kinds.sql").write_text(NOTES.replace("note", "kind"))
        source.must("setup", **host)
        wait_until(
            lambda: "has changed what is to be followed" in running.said(), "it notices the setup"
        )
        source.execute(insert)
        wait_until(lambda: source.value(count.format("ft_notes")) == 2, running.said())
        source.dbt("run", **{**host, **profiles(tmp_path)})
        source.execute(insert)
        wait_until(lambda: source.value(count.format("ft_notes")) == 3, running.said())
        wait_until(lambda: source.value(count.format("ft_kinds")) == 3, running.said())
        running.end()


def test_a_roll_up_is_known_everywhere_and_forgotten(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    environment = {**host, **profiles(tmp_path)}
    models = Path(host["DBT_PROJECT_DIR"]) / "models"
    (models / "ft_texts.sql").write_text(
        "{{ waltally.roll_up(fact=ref('ft_notes'), dimensions={'note': 'note'}, measures={"
        "'row_count': {'sum': 'row_count'}, 'notes': {'distinct': 'note'}}) }}"
    )
    source.must("setup", **environment)
    source.dbt("run", **environment)
    source.execute("insert into unrelated (note) values ('a'), ('a'), ('b')")
    source.must("run", "--once", "--build")
    assert source.execute("select note, row_count, notes from elsewhere.ft_texts order by 1") == [
        ("a", 2, 1),
        ("b", 1, 1),
    ]
    status = json.loads(source.loader("status", "--json").stdout)
    (found,) = [each for each in status["facts"] if each["name"] == "ft_texts"]
    assert found["state"] == "follows"
    said = json.loads(source.must("stats", "ft_texts", "--by", "note", "--json"))
    assert [line["notes"] for line in said["lines"]] == [1, 1]
    assert said["totals"] == {"row_count": 3, "notes": None}, "they are not added up"

    (models / "ft_texts.sql").unlink()
    said = source.must("setup", **environment)
    assert said.startswith("forgot ft_texts, which is no longer declared; its table stays\n")
    source.execute("insert into unrelated (note) values ('c')")
    source.must("run", "--once", "--build")
    assert source.value("select sum(row_count) from elsewhere.ft_texts") == 3
    source.must("teardown", "--purge", "--yes")
    source.execute("update elsewhere.ft_notes set row_count = row_count")


@pytest.mark.slow
def test_the_widest_models_are_built(source: Database, tmp_path: Path) -> None:
    """Wider ones are refused while dbt parses (test_declarations)."""
    texts, numbers = [f"t{n}" for n in range(32)], [f"n{n}" for n in range(368)]
    source.execute(
        f"create table wide ({', '.join(f'{name} text default 0' for name in texts)}, "
        f"{', '.join(f'{name} bigint default 1' for name in numbers)});"
        "alter table wide replica identity full"
    )
    sums = {f"of_{name}": {"sum": name} for name in numbers[1:]}
    types = {**dict.fromkeys(texts, "text"), **dict.fromkeys(numbers, "bigint")}
    models = {
        "ft_wide": "{{ waltally.fact(tables={'rows': 'public.wide'}, "
        f"dimensions={dict.fromkeys(texts, 'text')}, measures={sums}) }}}}",
        "rows_wide": "{{ waltally.current_rows(table='public.wide', "
        f"key={texts}, columns={types}) }}}}",
    }
    environment = {
        "LOADER_MANIFEST": "",
        "DBT_PROJECT_DIR": str(host_project(tmp_path, models)),
        **profiles(tmp_path),
    }
    source.must("setup", **environment)
    source.dbt("run", **environment)
    source.execute("insert into wide (t0) values ('a'), ('b'), (null)")
    source.execute("update wide set n367 = 7 where t0 = 'a'; delete from wide where t0 = 'b'")
    source.must("run", "--once", "--build", **environment)
    counted = "select t0, t31, of_n1, of_n367 from analytics.ft_wide where of_n1 <> 0"
    assert source.execute(counted) == [("a", "0", 1, 7)]
    assert source.execute("select t0, n0, n367 from analytics.rows_wide") == [("a", 1, 7)]


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


def test_a_declaration_that_is_refused_is_its_sentence_alone(
    source: Database, host: dict[str, str]
) -> None:
    project = Path(host["DBT_PROJECT_DIR"])
    (project / "models" / "ft_wrong.sql").write_text(NOTES.replace("'count'", "'max'"))
    for command in (("setup",), ("setup", "--check")):
        done = source.loader(*command, **host)
        assert done.returncode == 28
        said = sentence(done.stderr)
        assert said.startswith(
            "Error: ft_wrong: measure row_count is max; it takes {'count': table} or "
        )
        remedy = f"Try: correct models/ft_wrong.sql in {project}\n"
        assert said.endswith(f"does not allow; a roll_up of the fact has those\n{remedy}")


MISSING = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python that has neither."""
    folder = tmp_path / "neither"
    for name in ("dbt", "pyspark"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(MISSING)
    return {"PYTHONPATH": str(folder), "HOME": str(tmp_path)}


def loader(
    pipeline: Pipeline, without: dict[str, str], *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run it as a process of its own: this one has imported dbt."""
    return run([str(LOADER), *arguments], pipeline.environment(**without, **more))


def test_each_command_does_its_work(pipeline: Pipeline, without: dict[str, str]) -> None:
    def must(*arguments: str) -> str:
        done = loader(pipeline, without, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "registered ft_service_stats" in must("setup")
    pipeline.seed()
    must("run", "--once")
    pipeline.install()
    pipeline.source.insert(3)
    must("run", "--once", "--build")
    must("wait", "--lsn", pipeline.position())
    must("status")
    (line,) = json.loads(must("stats", "ft_service_stats", "--json"))["lines"]
    assert line["live_count"] == 3
    must("prune", "--keep", "0s")
    assert "dropped the slot" in must("teardown", "--purge", "--yes")


def test_setup_without_a_manifest_says_what_to_install(
    pipeline: Pipeline, without: dict[str, str], tmp_path: Path
) -> None:
    project = host_project(tmp_path, {"ft_notes": NOTES})
    done = loader(pipeline, without, "setup", LOADER_MANIFEST="", DBT_PROJECT_DIR=str(project))
    assert done.returncode == 28
    said = sentence(done.stderr)
    assert "dbt is not installed here" in said
    assert "requirements.lock 'waltally[dbt]'; or --manifest" in said


def test_init_names_what_installs_dbt(pipeline: Pipeline, without: dict[str, str]) -> None:
    folder = Path(without["HOME"]) / "facts"
    done = loader(pipeline, without, "init", str(folder), "--table", "public.notifications")
    assert done.returncode == 0, done.stderr
    assert "requirements.lock 'waltally[dbt]'\n" in done.stdout
