"""The README's own commands, from a table with rows to a live fact."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from testkit.commands import LOADER, ROOT, RunningLoader, wait_until
from testkit.databases import Database
from testkit.servers import BIN
from waltally.errors import NotSetUp

ORDERS = """
    create type state as enum ('new', 'paid', 'sent');
    create table orders (
        id serial primary key, status state not null, channel text, placed_at timestamptz
    );
    alter table orders replica identity full;
    insert into orders (status, channel)
    select (array['new', 'paid', 'sent'])[1 + n % 3]::state, (array['web', 'shop', null])[1 + n % 3]
    from generate_series(1, 300) as n;
    analyze orders
"""
HAS_FACT = "select to_regclass('analytics.ft_orders') is not null"
FACT = """
    select status, channel, row_count from analytics.ft_orders where row_count > 0 order by 1, 2
"""
RECOUNT = "select status::text, channel, count(*) from orders group by 1, 2 order by 1, 2"
COUNT = "select sum(count)::integer from analytics.ft_service_stats"
COLUMNS = """
    select column_name, data_type from information_schema.columns
    where table_schema = 'analytics' and table_name = 'ft_service_stats' order by ordinal_position
"""


def blocks() -> list[list[str]]:
    """Return the lines of each block that this test runs."""
    found = re.findall(
        r"<!-- the acceptance test runs this block -->\n```sh\n(.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    return [block.splitlines() for block in found]


def run(lines: list[str], cwd: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-ec", "\n".join(lines)], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_s_commands_lead_from_a_table_to_a_live_fact(
    source: Database, tmp_path: Path
) -> None:
    source.execute(ORDERS)
    environment = source.environment(
        LOADER_MANIFEST="",
        PATH=f"{LOADER.parent}{os.pathsep}{os.environ['PATH']}",
        DBT_SEND_ANONYMOUS_USAGE_STATS="false",
    )
    (*first, check), (*rest, follow), _ = blocks()
    assert first[0] == "loader init facts --table public.orders"
    run(first, tmp_path, environment)
    project = tmp_path / "facts"
    findings = subprocess.run(
        check.split(), cwd=project, env=environment, capture_output=True, text=True
    )
    assert findings.returncode == NotSetUp.exit_code, findings.stderr
    run(rest, project, environment)
    assert follow == "loader run --build"
    environment |= {"DBT_PROJECT_DIR": str(project), "DBT_PROFILES_DIR": str(project)}
    with RunningLoader(environment, tmp_path / "run.log", "--build") as running:
        wait_until(lambda: source.value(HAS_FACT) is True, "the fact is built")
        source.execute(
            "insert into orders (status) values ('new'), ('paid');"
            "update orders set status = 'paid', channel = 'web' where id < 50;"
            "delete from orders where id > 290"
        )
        wait_until(lambda: source.execute(FACT) == source.execute(RECOUNT), "the fact is exact")
        running.end()


@pytest.mark.slow
def test_the_shipped_fact_is_made_from_the_root_of_the_repository(
    source: Database, tmp_path: Path
) -> None:
    root = tmp_path / "waltally"
    root.mkdir()
    for each in ROOT.iterdir():
        if each.name not in ("profiles.yml", "target", "logs"):
            (root / each.name).symlink_to(each)
    source.insert(30, "delivered")
    environment = source.environment(
        LOADER_MANIFEST="", PATH=f"{LOADER.parent}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
    )
    prepare, setup, follow, seed, build, test, select = blocks()[2]
    assert follow == "loader run --build &"
    run([prepare, setup], root, environment)
    log = tmp_path / "run.log"
    project = {"DBT_PROJECT_DIR": str(root), "DBT_PROFILES_DIR": str(root)}
    with RunningLoader({**environment, **project}, log, "--build") as running:
        source.insert(5)
        run([seed, f"{build} --exclude-resource-type unit_test", test], root, environment)
        source.insert(2, "delivered")
        wait_until(lambda: source.value(COUNT) == 37, "the fact is exact")
        run([f"{select} | grep -E 'delivered +[|] +32'"], root, environment)
        running.end()
    assert source.execute(COLUMNS) == [
        ("id", "uuid"),
        ("service_id", "uuid"),
        ("template_id", "uuid"),
        ("notification_type", "text"),
        ("notification_status", "text"),
        ("count", "bigint"),
        ("live_count", "bigint"),
        ("archived_count", "bigint"),
    ]
