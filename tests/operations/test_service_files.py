"""The service files, timers and cron lines: sound, and true to the commands that there are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from dbt.cli.main import cli as dbt
from waltally_jobs.archiving import job as archiving
from waltally_jobs.auditing import job as auditing
from waltally_jobs.replaying import job as replaying
from waltally_jobs.seeding import job as seeding

from loader.cli import app
from testkit.commands import LOADER, ROOT

FOLDER = ROOT / "ops" / "systemd"
PREFIX = "/opt/waltally"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))


def command(service: str) -> list[str]:
    """The service's command, with this checkout in the place of the installed one."""
    (line,) = re.findall("^ExecStart=(.*)$", (FOLDER / service).read_text(), re.MULTILINE)
    return shlex.split(line.replace(f"{PREFIX}/.venv/bin", str(LOADER.parent)))


def cron_commands() -> Iterator[list[str]]:
    lines = (ROOT / "ops" / "crontab.example").read_text().splitlines()
    for line in (line for line in lines if re.match(r"[*\d]", line)):
        found = re.search(rf"{PREFIX}/ops/with-settings ([^)|]*)", line)
        assert found, line
        yield shlex.split(re.sub(r"\d?>.*", "", found[1]))


JOBS = {"seed": seeding, "audit": auditing, "archive": archiving, "replay": replaying}
COMMANDS = [command(service) for service in SERVICES] + list(cron_commands())


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    """Of the files as they would be installed, with programs that are there."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    for file in FOLDER.rglob("waltally-*"):
        if file.is_dir():
            shutil.copytree(file, tmp_path / file.name)
        elif file.parent == FOLDER:
            (tmp_path / file.name).write_text(file.read_text().replace(PREFIX, str(ROOT)))
    units = sorted(str(path) for path in tmp_path.glob("*.*") if path.is_file())
    done = subprocess.run([program, "verify", "--man=no", *units], capture_output=True, text=True)
    # It looks into the machine's own units too.
    said = [line for line in done.stderr.splitlines() if "waltally" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_is_one_that_its_own_parser_takes(words: list[str]) -> None:
    program, verb, *options = [word for word in words if word != "--quiet"]
    if Path(program).name == "spark-submit":
        assert (ROOT / verb).is_file(), verb
        typer.main.get_command(JOBS[Path(verb).stem].app).make_context(verb, options)
    else:
        group: Any = {"loader": typer.main.get_command(app), "dbt": dbt}[Path(program).name]
        # dbt asks for the folder of its profile even then.
        more = ["--profiles-dir", str(ROOT)] if group is dbt else []
        group.commands[verb].make_context(verb, [*options, *more])


def test_with_settings_hands_them_on(tmp_path: Path) -> None:
    file = tmp_path / "environment"
    file.write_text((FOLDER / "environment.example").read_text())
    done = subprocess.run(
        [ROOT / "ops" / "with-settings", "sh", "-c", 'pwd; command -v loader; echo "$PGDATABASE"'],
        env={"PATH": os.environ["PATH"], "HOME": "/root", "WALTALLY_ENVIRONMENT": str(file)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    place, found, database = done.stdout.splitlines()
    assert (place, database) == (str(ROOT), "warehouse")
    assert Path(found) == ROOT / ".venv" / "bin" / "loader"
