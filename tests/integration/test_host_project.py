"""A user's own dbt project with waltally as a package, also where dbt is not installed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from testkit.commands import (
    LOADER,
    RunningLoader,
    profiles,
    run,
    run_dbt,
    sentence,
    short_pauses,
    wait_until,
)
from testkit.databases import Database, paste
from testkit.pipeline import Pipeline
from testkit.project import host_project
from testkit.servers import administer
from waltally.tables import quoted

NOTES = """
{{ waltally.fact(
    tables={'rows': 'public.unrelated'},
    dimensions={'note': 'text'},
    measures={'row_count': {'count': 'rows'}},
) }}
"""
ROLL_UP = """
{{ waltally.roll_up(
    fact=ref('ft_notes'),
    dimensions={'note': 'note'},
    measures={'row_count': {'sum': 'row_count'}, 'notes': {'distinct': 'note'}},
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


def test_models_join_and_leave_while_a_loader_builds(
    source: Database, host: dict[str, str], tmp_path: Path
) -> None:
    assert "registered ft_notes\n" in source.must("setup", **host), "there is no profile yet"
    assert source.execute("select fact_name, relation_schema, relation_name from cdc.fact") == [
        ("ft_notes", "elsewhere", "ft_notes")
    ]
    checked = source.loader("setup", "--check", **host)
    assert (checked.stdout, checked.stderr) == (
        "Everything is set up.\n",
        "dbt parses the project\n",
    ), "dbt may need half a minute: nobody should wait without a word"
    models = Path(host["DBT_PROJECT_DIR"]) / "models"
    assert not (models.parent / "target").exists(), "it leaves dbt's output alone"
    environment = {**host, **profiles(tmp_path)}
    source.dbt("run", **environment)
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
        source.must("setup", **environment)
        running.wait_for("has changed what is to be followed")
        source.execute(insert)
        count("ft_notes", 4)
        source.dbt("run", **environment)
        source.execute(insert)
        count("ft_notes", 6)
        count("ft_kinds", 6)
        rolled_up = "select note, row_count, notes from elsewhere.ft_texts order by note"
        assert source.execute(rolled_up) == [("a", 3, 1), ("b", 3, 1)]
        status = json.loads(source.loader("status", "--json").stdout)
        states = {each["name"]: each["state"] for each in status["facts"]}
        assert states == dict.fromkeys(("ft_notes", "ft_kinds", "ft_texts"), "follows")
        lines = source.must("stats", "ft_texts", "--by", "note").splitlines()[4:7]
        rows = [line.split() for line in lines]
        assert rows == [["a", "3", "1"], ["b", "3", "1"], ["total", "6", "null"]], "not added up"

        for model in ("ft_kinds", "ft_texts"):
            (models / f"{model}.sql").unlink()
            said = source.must("setup", **environment)
            assert f"forgot {model}, which is no longer declared; " in said
        source.execute(insert)
        count("ft_notes", 8)
        for model in ("ft_kinds", "ft_texts"):
            count(model, 6)
        running.end()
    said = source.must("teardown", "--drop-data", "--yes")
    assert said.endswith("dropped the schema cdc\ndropped the schema cdc_jobs\n")
    count("ft_notes", 8)
    source.execute("update elsewhere.ft_notes set row_count = row_count")
    assert source.execute("select * from elsewhere.rejected_changes") == []


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


def test_what_dbt_cannot_parse_or_refuses_is_one_sentence(
    source: Database, host: dict[str, str]
) -> None:
    project = Path(host["DBT_PROJECT_DIR"])
    wrong = project / "models" / "ft_wrong.sql"
    wrong.write_text("select * from {{ ref('missing') }}")
    done = source.loader("setup", **host)
    assert done.returncode == 28
    assert "missing" in sentence(done.stderr)
    assert "`dbt parse`" in done.stderr
    wrong.write_text(NOTES.replace("'count'", "'max'"))
    done = source.loader("setup", "--check", **host)
    assert done.returncode == 28
    said = sentence(done.stderr)
    assert said.startswith("Error: ft_wrong: measure row_count is max; use {'count': table} or ")
    remedy = f"Try: correct models/ft_wrong.sql in {project}\n"
    assert said.endswith(f"does not allow; a roll_up of the fact has those\n{remedy}")
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
        code, said = source.refused("setup", **environment)
        assert (code, words in said) == (28, True), said
        assert said.endswith(
            "Try: set the variables that it names, for `loader setup` and for dbt\n"
        )
    assert "registered ft_notes" in source.must("setup", **host), "several hosts and one port"
    source.dbt("run", **host)


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_target_that_dbt_cannot_name_is_refused(
    source: Database, host: dict[str, str], quote: str
) -> None:
    name = f"ware{quote}house"
    administer(source.cluster, f"create database {quoted(name)}")
    try:
        target = source.cluster.dsn(name)
        code, said = source.refused("setup", **host, LOADER_TARGET_DSN=target)
        assert (code, f"is named {name}" in said) == (2, True), said
        paste(source.cluster, "postgres", said.split("Try: ")[1])
    finally:
        administer(
            source.cluster,
            f"drop database if exists {quoted(name)}",
            "drop database if exists ware_house",
        )
    assert source.value("select to_regnamespace('cdc') is null")


MISSING = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python that has neither."""
    folder = tmp_path / "neither"
    for name in ("dbt", "pyspark"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(MISSING)
    return {"PYTHONPATH": str(folder), "HOME": str(tmp_path)}


def test_without_dbt_each_command_does_its_work_and_setup_says_where_it_needs_it(
    pipeline: Pipeline, without: dict[str, str], tmp_path: Path
) -> None:
    def loader(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run it as a process of its own: this one has imported dbt."""
        return run([str(LOADER), *arguments], pipeline.environment(**without, **more))

    def must(*arguments: str) -> str:
        done = loader(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    project = host_project(tmp_path, {"ft_notes": NOTES})
    done = loader("setup", LOADER_MANIFEST="", DBT_PROJECT_DIR=str(project))
    assert done.returncode == 28
    said = sentence(done.stderr)
    assert "dbt is not installed here" in said
    assert "requirements.lock 'waltally[dbt]'; or --manifest" in said
    assert "registered ft_service_stats" in must("setup")
    pipeline.seed()
    pipeline.install()
    pipeline.source.insert(3)
    must("run", "--once", "--build")
    must("wait", "--lsn", pipeline.position())
    must("status")
    assert must("stats", "ft_service_stats").splitlines()[4].split() == ["3", "3", "0"]
    must("prune", "--keep", "0s")
    assert "dropped the slot" in must("teardown", "--drop-data", "--yes")
