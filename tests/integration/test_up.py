"""`loader up`: from a dbt project to live tables, in one terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.commands import LOADER, RunningLoader, profiles, wait_until
from testkit.databases import Database, empty_database
from testkit.project import host_project
from testkit.servers import Cluster

TABLES = """
create schema lab;
create table lab.sale (id int primary key, kind int not null, amount int not null);
create table lab.note (id int primary key, body text);
insert into lab.sale select n, n % 7, n from generate_series(1, 1000) as n;
insert into lab.note select n, 'note ' || n from generate_series(1, 100) as n;
"""
SALES = """
{{ config(materialized='waltally') }}
select kind, count(*) as sales, sum(amount) as amount from {{ source('lab', 'sale') }} group by 1
"""
NOTES = """
{{ config(materialized='waltally') }}
select id, body from {{ source('lab', 'note') }}
"""
VIEW = "{{ config(materialized='view') }} select kind, sales from {{ ref('sales') }}"
SOURCES = "sources: [{name: lab, schema: lab, tables: [{name: sale}, {name: note}]}]\n"
COUNTED = "select kind, count(*) from lab.sale group by 1 order by 1"
SHOWN = "select kind, sales from analytics.by_kind order by 1"
IDENTITY = "select relreplident from pg_class where oid = 'lab.sale'::regclass"


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[Database]:
    with empty_database(cluster) as made:
        made.execute(TABLES)
        yield made


@pytest.fixture
def environment(lab: Database, tmp_path: Path) -> dict[str, str]:
    project = host_project(tmp_path, {"sales": SALES, "notes": NOTES, "by_kind": VIEW})
    (project / "models" / "sources.yml").write_text(SOURCES)
    given = {"LOADER_MANIFEST": "", "DBT_PROJECT_DIR": str(project), "HOME": str(tmp_path)}
    return lab.environment(**given, **profiles(tmp_path))


def up(environment: dict[str, str], home: Path, *options: str) -> RunningLoader:
    return RunningLoader(environment, home / "up.log", *options, verb="up")


def is_live(running: RunningLoader) -> None:
    wait_until(lambda: "live: analytics.notes" in running.said(), "it is live", 300)
    assert "live: analytics.by_kind, " in running.said(), "what a reader selects from"
    assert "live: analytics.sales" not in running.said(), "a view reads it"


def is_exact(lab: Database) -> None:
    wait_until(lambda: lab.execute(SHOWN) == lab.execute(COUNTED), "the view is exact")


def test_what_the_source_lacks_is_shown_and_run_after_a_yes(
    lab: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    with up(environment, tmp_path) as running:
        wait_until(lambda: running.process.poll() is not None, "it ends without a terminal", 300)
        assert running.process.poll() == 17, running.said()
        assert 'Try: create unique index concurrently "sale_replica_identity"' in running.said()
    assert lab.value(IDENTITY) == "d"
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n")
    with (
        (tmp_path / "log").open("w") as out,
        subprocess.Popen(
            [str(LOADER), "up"], stdin=theirs, stdout=out, stderr=out, env=environment
        ) as running_here,
    ):
        said = (tmp_path / "log").read_text
        wait_until(lambda: "live: analytics.notes" in said(), "it is live", 300)
        assert lab.value(IDENTITY) == "i"
        lab.execute("delete from lab.sale where id % 3 = 0; update lab.sale set kind = 1")
        is_exact(lab)
        running_here.send_signal(signal.SIGINT)
    assert running_here.returncode == 0, said()


def test_killed_at_any_stage_it_goes_on(
    lab: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    for moment in ("made the slot", "START sql waltally", "starting the seed of", "live: "):
        with up(environment, tmp_path, "--fix") as running:
            wait_until(lambda: moment in running.said(), f"{moment}: {running.said()}", 300)  # noqa: B023
            running.kill()
        lab.execute("update lab.sale set kind = kind + 1 where id < 100")
    with up(environment, tmp_path) as running:
        is_live(running)
        is_exact(lab)


def test_what_the_source_cannot_have_is_said(
    lab: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    wrong = SALES.replace("kind,", "kind, max(amount) as most,")
    (Path(environment["DBT_PROJECT_DIR"]) / "models" / "sales.sql").write_text(wrong)
    with up(environment, tmp_path, "--fix") as running:
        wait_until(lambda: running.process.poll() is not None, "dbt refuses it", 300)
        assert "`dbt build` ended with exit code 1" in running.said()
        assert "max" in running.said()
