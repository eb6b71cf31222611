"""docs/tutorial.md: each of its commands, in their order, on a database of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from testkit.commands import LOADER, ROOT, RunningLoader
from testkit.databases import Database
from testkit.servers import BIN

FOLLOW = "loader run --build\n"
BY_NAME = """
    select day, status, team_name, row_count, minutes from analytics.ft_tickets_by_name
    where row_count <> 0 order by 1, 2, 3
"""
RECOUNT = """
    select
        (opened_at at time zone 'Europe/Berlin')::date, status, name, count(*), sum(minutes)
    from tickets inner join teams on teams.id = team_id group by 1, 2, 3 order by 1, 2, 3
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_s_commands_lead_to_numbers_that_are_right(
    database: Database, tmp_path: Path
) -> None:
    blocks = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "docs/tutorial.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 10
    assert FOLLOW in blocks
    follow = blocks.index(FOLLOW)
    environment = database.environment(
        LOADER_MANIFEST="",
        PATH=f"{LOADER.parent}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}",
        DBT_SEND_ANONYMOUS_USAGE_STATS="false",
    )
    project = tmp_path / "helpdesk"

    def run(block: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", block],
            cwd=project if project.exists() else tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout

    said = "".join(map(run, blocks[:follow]))
    assert "ft_tickets counts the rows of public.tickets:\n  by day, the day of opened_at" in said
    assert "something is missing" in said
    environment |= {"DBT_PROJECT_DIR": str(project), "DBT_PROFILES_DIR": str(project)}
    with RunningLoader(environment, tmp_path / "run.log", "--build") as running:
        said = "".join(map(run, blocks[follow + 1 :]))
        running.end()
    assert "Networks and Wifi" in said
    assert re.search(r"^healthy, exact as of", said, re.MULTILINE), said
    assert database.execute(BY_NAME) == database.execute(RECOUNT)
