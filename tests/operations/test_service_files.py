"""The service files, timers and cron lines: sound, and true to the commands that there are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archiving.job
import auditing.job
import pytest
import replaying.job
import seeding.job
import typer.main
from dbt.cli.main import cli as dbt

from loader.cli import app
from testkit.commands import LOADER, ROOT, profiles, wait_until
from testkit.databases import Database
from testkit.servers import free_port
from tests.unit.test_reference import errors

FOLDER = ROOT / "ops" / "systemd"
PREFIX = "/opt/waltally"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
TIMERS = sorted(path.name for path in FOLDER.glob("*.timer"))
COMMON = (FOLDER / "waltally-.service.d" / "common.conf").read_text()
CODES = {kind.exit_code for kind in errors()}


def values(text: str, name: str) -> list[str]:
    """What a directive is set to, once for each time it stands there."""
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


def command(service: str) -> list[str]:
    """The service's command, with this checkout in the place of the installed one."""
    (line,) = values((FOLDER / service).read_text(), "ExecStart")
    return shlex.split(line.replace(f"{PREFIX}/.venv/bin", str(LOADER.parent)))


def cron_lines() -> list[list[str]]:
    """The fields of each line of the crontab: five of time, the user, the command."""
    lines = (ROOT / "ops" / "crontab.example").read_text().splitlines()
    return [line.split(None, 6) for line in lines if re.match(r"[*\d]", line)]


def cron_commands() -> Iterator[list[str]]:
    for *_, line in cron_lines():
        found = re.search(rf"{PREFIX}/ops/with-settings ([^)|]*)", line)
        assert found, line
        yield shlex.split(re.sub(r"\d?>.*", "", found[1]))


JOBS = {"seed": seeding, "audit": auditing, "archive": archiving, "replay": replaying}
COMMANDS = [command(service) for service in SERVICES] + list(cron_commands())


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    return subprocess.run([program, *arguments], capture_output=True, text=True)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The files as they would be installed, with programs that are there."""
    for file in FOLDER.rglob("waltally-*"):
        if file.is_dir():
            shutil.copytree(file, tmp_path / file.name)
        elif file.parent == FOLDER:
            (tmp_path / file.name).write_text(file.read_text().replace(PREFIX, str(ROOT)))
    return tmp_path


def test_systemd_finds_nothing_wrong(installed: Path) -> None:
    units = [str(installed / name) for name in (*SERVICES, *TIMERS)]
    done = systemd_analyze("verify", "--man=no", *units)
    # It looks into the machine's own units too.
    said = [line for line in done.stderr.splitlines() if "waltally" in line]
    assert (done.returncode, said) == (0, [])


def test_services_expose_little(installed: Path) -> None:
    for service in SERVICES:
        done = systemd_analyze(
            "security", "--offline=true", "--threshold=25", str(installed / service)
        )
        assert done.returncode == 0, done.stdout[-300:]


def must_parse(words: list[str]) -> None:
    """Fail where a command's own parser does not take these words."""
    program, verb, *options = [word for word in words if word != "--quiet"]
    if Path(program).name == "spark-submit":
        assert (ROOT / verb).is_file(), verb
        typer.main.get_command(JOBS[Path(verb).stem].job.app).make_context(verb, options)
    else:
        group: Any = {"loader": typer.main.get_command(app), "dbt": dbt}[Path(program).name]
        # dbt asks for the folder of its profile even then.
        more = ["--profiles-dir", str(ROOT)] if group is dbt else []
        group.commands[verb].make_context(verb, [*options, *more])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_is_one_that_there_is(words: list[str]) -> None:
    must_parse(words)
    with pytest.raises(Exception, match="No such option"):
        must_parse([*words, "--none-such"])


def test_codes_in_the_service_files_are_the_loader_s() -> None:
    for service in SERVICES:
        text = (FOLDER / service).read_text()
        for name in ("RestartPreventExitStatus", "SuccessExitStatus"):
            for listed in values(text, name):
                assert {int(code) for code in listed.split()} <= CODES


def test_everything_writes_only_where_it_may() -> None:
    """ProtectSystem leaves the state directories: dbt's files must be in one of them."""
    assert values(COMMON, "ProtectSystem") == ["strict"]
    for service in SERVICES:
        text = (FOLDER / service).read_text()
        (state,) = values(text, "StateDirectory") or [""]
        places = re.findall(r"/var/lib/(\S+)", text)
        assert all(place == state or place.startswith(f"{state}/") for place in places)
        if "dbt" in text:
            written = "".join(values(text, "Environment"))
            assert "DBT_TARGET_PATH" in written
            assert "DBT_LOG_PATH" in written


@pytest.fixture
def read_only() -> list[str]:
    """What to put before a command so that it finds the project read-only, as a service does."""
    project = shlex.quote(str(ROOT))
    inside = f"mount --bind {project} {project} && mount -o remount,bind,ro {project}"
    if subprocess.run(["unshare", "--mount", "sh", "-c", inside], capture_output=True).returncode:
        return []  # no right to mount: then it runs in the project as it is
    run = f'{inside} && cd {project} && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", run, "sh"]


def test_the_loader_s_unit_runs_and_stops(
    source: Database, tmp_path: Path, read_only: list[str]
) -> None:
    """With the unit's command and environment and nothing of the project to write to."""
    environment = {
        **source.environment(),
        **dict(
            line.replace("/var/lib/waltally", str(tmp_path)).split("=", 1)
            for line in values((FOLDER / "waltally-loader.service").read_text(), "Environment")
        ),
        "DBT_PROFILES_DIR": str(tmp_path),
    }
    source.must("setup")
    source.dbt("run", **profiles(tmp_path))
    *words, port = command("waltally-loader.service")
    assert words[-1] == "--metrics-port"
    assert port.isdigit()
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*read_only, *words, str(free_port())], env=environment, cwd=ROOT, stderr=out
        )
    try:
        source.insert(5)
        wait_until(lambda: process.poll() is not None or source.staged() == 5, "it stages")
        built = "select sum(count) = 5 from analytics.ft_service_stats"
        wait_until(lambda: process.poll() is not None or source.value(built), "it builds", 120)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()
        assert "ERROR" not in log.read_text()
        assert source.value("select sum(count) from analytics.ft_service_stats") == 5
    finally:
        process.kill()
        process.wait()


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
