"""The files of ops: alerts and dashboard, service files, timers and cron lines.

Each alert has its place in the runbook, and all name only what there is. `make lint-alerts` tries
the alerts that look back; the others compare a metric with a number.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer.main
import yaml
from dbt.cli.main import cli as dbt
from waltally_jobs.auditing import job as auditing
from waltally_jobs.seeding import job as seeding

from loader.cli import app
from testkit.commands import LOADER, ROOT

ALERTS = ROOT / "ops" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "ops" / "grafana-dashboard.json"

OF_OTHERS = {
    "up",
    "node_systemd_unit_state",
    "node_systemd_timer_last_trigger_seconds",
    "kube_cronjob_status_last_successful_time",
}
"""Metrics of Prometheus, node_exporter and kube-state-metrics."""


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerting rules by name."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard_queries() -> list[str]:
    """Return the panels' queries with Grafana's variables filled in."""
    return [
        target["expr"].replace("$__rate_interval", "1m").replace("$slot", ".*")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """Return what a query reads. Raises ValueError where it is no PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


def documented() -> dict[str, tuple[str, str]]:
    """Return what docs/monitoring.md says: name to type and meaning."""
    rows = re.findall(
        r"^\| `(waltally_\w+)` \| (\w+) \| (.+) \|$",
        (ROOT / "docs" / "monitoring.md").read_text(),
        re.MULTILINE,
    )
    return {name: (kind, meaning) for name, kind, meaning in rows}


def names() -> set[str]:
    """Return the names that queries may use."""
    endings = {"histogram": ("_bucket", "_sum", "_count")}
    ours = {
        name + ending
        for name, (kind, _) in documented().items()
        for ending in endings.get(kind, ("",))
    }
    return ours | OF_OTHERS


def test_every_alert_says_what_to_run_and_has_its_place_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    assert set(re.findall(r"^### (Waltally\w+)$", runbook, re.MULTILINE)) == alerts().keys()
    for name, rule in alerts().items():
        notes = rule["annotations"]
        assert re.search(r"`[^`]+`", notes["description"]), f"{name} names nothing to run"
        assert notes["runbook_url"] == f"docs/runbook.md#{name.lower()}"


def test_every_query_names_what_there_is_and_the_dashboard_shows_every_metric() -> None:
    ours, of_others = {"slot", "status", "state"}, {"job", "name", "state", "job_name", "cronjob"}
    for query in [rule["expr"] for rule in alerts().values()] + dashboard_queries():
        assert selectors(query), query
        for selector in selectors(query):
            assert selector.name in names(), query
            labels = {matcher.name for matcher in selector.matchers.matchers}
            assert labels <= (of_others if selector.name in OF_OTHERS else ours), query
    shown = {
        re.sub("_bucket$", "", str(selector.name))
        for query in dashboard_queries()
        for selector in selectors(query)
    }
    assert shown == set(documented())


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


JOBS = {"seed": seeding, "audit": auditing}
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
