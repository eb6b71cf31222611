"""The commands of the README and of the tutorial, from a table with rows to a live model."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from testkit.commands import LOADER, ROOT, RunningLoader, run_loader, wait_until
from testkit.comparison import apart
from testkit.databases import Database
from testkit.servers import BIN

ORDERS = """
    create type state as enum ('new', 'paid', 'sent', 'draft');
    create table orders (
        id serial primary key, status state not null, channel text, placed_at timestamptz,
        amount numeric(10, 2)
    );
    alter table orders replica identity full;
    insert into orders (status, channel)
    select (array['new', 'paid', 'sent'])[1 + n % 3]::state, (array['web', 'shop', null])[1 + n % 3]
    from generate_series(1, 300) as n;
    analyze orders
"""
MODEL = "select * from analytics.report order by 1, 2"
COUNT = "select sum(count)::integer from analytics.ft_service_stats"
FOLLOW = "loader run --build"


def blocks(page: str, before: str = "") -> list[str]:
    """Return the commands of each block of the page that has this line before it."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^{before}```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


README = blocks("README.md", "<!-- the acceptance test runs this block -->\n")


def environment_of(database: Database, project: Path | None = None) -> dict[str, str]:
    """What an operator has; with a project also for a loader that runs elsewhere."""
    given = {"LOADER_MANIFEST": "", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    given["PATH"] = os.pathsep.join((str(LOADER.parent), str(BIN), os.environ["PATH"]))
    if project:
        given |= dict.fromkeys(("DBT_PROJECT_DIR", "DBT_PROFILES_DIR"), str(project))
    return database.environment(**given)


def run(commands: str, cwd: Path, environment: Mapping[str, str]) -> str:
    """Have bash run the commands, and return what they print."""
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_readme_s_commands_lead_from_a_table_to_a_live_model(
    source: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are counted by tasks of Spark, which the second command starts: its log has them."""
    source.execute(ORDERS)
    (report,) = re.findall(
        r"^```sql\n(-- report.sql\n.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S
    )
    (tmp_path / "report.sql").write_text(report)
    recount = f"{report} order by 1, 2"
    environment = environment_of(source)
    monkeypatch.chdir(tmp_path)
    propose, up = README[0].splitlines()
    assert up == "cd live && loader up"
    done = run_loader(tuple(propose.split()[1:]), environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("  cd live\n  loader up\n"), done.stdout
    environment, events = environment_of(source, tmp_path / "live"), tmp_path / "events"
    events.mkdir()
    logged = {"enabled": "true", "compress": "false", "dir": events.as_uri()}
    properties = (f"-Dspark.eventLog.{name}={value}" for name, value in logged.items())
    environment["SPARK_SUBMIT_OPTS"] = " ".join(properties)
    with RunningLoader(environment, tmp_path / "run.log", verb="up") as running:
        wait_until(lambda: "live: " in running.said(), f"it is live: {running.said()}", 300)
        said = "".join(file.read_text() for file in events.rglob("*") if file.is_file())
        assert '"spark.job.description":"reading public.orders"' in said
        assert '"Event":"SparkListenerTaskEnd"' in said
        assert 'rows; select * from "analytics"."report"' in running.said()
        source.execute(
            "insert into orders (status, amount) values ('new', 7.5), ('draft', 1);"
            "update orders set status = 'paid', channel = 'web' where id < 50;"
            "delete from orders where id > 290"
        )
        wait_until(lambda: source.execute(MODEL) == source.execute(recount), "the model is exact")
        running.end()


@pytest.mark.slow
def test_the_shipped_model_is_made_from_the_root_of_the_repository(
    source: Database, tmp_path: Path
) -> None:
    root = tmp_path / "waltally"
    root.mkdir()
    for each in ROOT.iterdir():
        if each.name not in ("profiles.yml", "target", "logs"):
            (root / each.name).symlink_to(each)
    source.insert(30, "delivered")
    environment = environment_of(source)
    prepare, setup, build, follow, wait, test, select = README[1].splitlines()
    assert follow == f"{FOLLOW} --seed &"
    run(f"{prepare}\n{setup}\n{build} --exclude-resource-type unit_test", root, environment)
    options = ("--build", "--seed")
    with RunningLoader(environment_of(source, root), tmp_path / "run.log", *options) as running:
        source.insert(5)
        run(f"{wait}\n{test}", root, environment)
        source.insert(2, "delivered")
        wait_until(lambda: source.value(COUNT) == 37, "the model is exact")
        run(f"{select} | grep -E 'delivered +[|] +32'", root, environment)
        running.end()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_s_commands_lead_to_numbers_that_are_right(
    database: Database, tmp_path: Path
) -> None:
    page, commands = (ROOT / "docs/queries.md").read_text(), blocks("docs/queries.md")
    begin, make, up, mend, *more = commands
    assert up == "loader up\n"
    environment, project = environment_of(database), tmp_path / "helpdesk"
    said = run(begin + make, tmp_path, environment)
    assert "minutes: same rows: " in said and "latest: same rows: 3," in said
    assert (project / "models" / "minutes_counts_tickets.sql").read_text() in page
    environment = environment_of(database, project)
    with RunningLoader(environment, tmp_path / "run.log", verb="up") as running:
        wait_until(lambda: running.process.poll() == 17, f"it misses something: {running.said()}")
    run(mend, project, environment)
    with RunningLoader(environment, tmp_path / "run.log", verb="up") as running:
        wait_until(
            lambda: running.said().count("live: ") == 2, f"it is live: {running.said()}", 300
        )
        said = run("".join(more), project, environment)
        running.end()
    assert "Networks and Wifi" in said
    assert re.search(r"^healthy, exact as of", said, re.MULTILINE), said
    for name in ("minutes", "latest"):
        query = (tmp_path / f"{name}.sql").read_text()
        assert database.execute(apart(f"select * from analytics.{name}", query)) == []
