"""The code in ops/orchestration does in Airflow and in Dagster what docs/spark.md says."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from testkit.commands import ROOT, wait_until
from testkit.pipeline import Pipeline
from tests.unit.test_reference import errors

PAGE = (ROOT / "docs/spark.md").read_text().partition("## Airflow and Dagster")[2]
AIRFLOW, DAGSTER = (
    (ROOT / "ops" / "orchestration" / file).read_text()
    for file in ("airflow_dag.py", "dagster_jobs.py")
)
SHORTER = {"60s": "5s", "timedelta(minutes=5)": "timedelta(seconds=1)", "delay=300": "delay=1"}
NO_LOADER = "so the change log does not grow"
Ends = dict[str, tuple[str, int]]
"""How each task ended, and the number of its tries."""


def installed(name: str) -> str:
    """Return the program, in the version that the page names, in an environment of its own."""
    (pin,) = re.findall(rf"`((?:apache-)?{name}==[\d.]+)`", PAGE)
    home: Path = ROOT / "target" / pin
    if not (home / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", pin], check=True)
        (home / "complete").touch()
    return str(home / "bin" / name)


class Flows:
    """The code of the page, with short times, in Airflow or in Dagster."""

    def __init__(self, name: str, pipeline: Pipeline, home: Path) -> None:
        self.home, self.program, self.is_airflow = home, installed(name), name == "airflow"
        self.settings, self.log = home / "environment", home / "log"
        given = pipeline.environment()
        self.set(**{k: given[k] for k in given if k.startswith(("PG", "LOADER_", "DBT_"))})
        self.environment = {
            **os.environ,
            **{"WALTALLY_ENVIRONMENT": str(self.settings), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            **{"AIRFLOW_HOME": str(home), "DAGSTER_HOME": str(home)},
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }
        code = AIRFLOW if self.is_airflow else DAGSTER
        places = {"/opt/waltally": str(ROOT), "/var/lib/waltally": str(home)}
        for old, new in {**places, **SHORTER}.items():
            code = code.replace(old, new)
        self.code = home / "dags" / "flows.py"
        self.code.parent.mkdir()
        self.code.write_text(code)
        if self.is_airflow:
            migrate = [self.program, "db", "migrate"]
            subprocess.run(migrate, env=self.environment, check=True, capture_output=True)

    def set(self, **settings: str) -> None:
        """Add to the file of waltally's settings."""
        with self.settings.open("a") as file:
            file.writelines(f"{name}={shlex.quote(settings[name])}\n" for name in settings)

    def run(self, job: str, meanwhile: Callable[[], object] = lambda: None) -> Ends:
        if self.is_airflow:
            arguments = ["dags", "test", f"waltally_{job}"]
        else:
            arguments = ["job", "execute", "-f", str(self.code), "-j", f"waltally_{job}"]
        with self.log.open("w") as out:
            command = [self.program, *arguments]
            running = subprocess.Popen(command, env=self.environment, stdout=out, stderr=out)
        try:
            meanwhile()
        finally:
            running.wait(600)
        return self._airflow_ends() if self.is_airflow else self._dagster_ends()

    def _airflow_ends(self) -> Ends:
        with closing(sqlite3.connect(self.home / "airflow.db")) as database:
            newest = "(select run_id from dag_run order by id desc limit 1)"
            query = f"select task_id, state, try_number from task_instance where run_id = {newest}"
            return {task: (state, tries) for task, state, tries in database.execute(query)}

    def _dagster_ends(self) -> Ends:
        said, found = self.log.read_text(), Ends()
        for task in re.findall(r" - (\w+) - STEP_(?:START|SKIPPED) ", said):
            events = "".join(re.findall(rf" - {task} - ([A-Z_]+ .*\n)", said))
            failed = re.search("STEP_FAILURE|STEP_SKIPPED|did not pass", events)
            tries = len(re.findall("^STEP_(?:RESTARTED|START) ", events, re.MULTILINE))
            found[task.removeprefix("models_")] = ("failed" if failed else "success", tries)
        return found


def test_both_try_again_on_the_codes_of_the_table() -> None:
    (listed,) = re.findall(r"^\| ([\d, ]+) \| yes", PAGE, re.MULTILINE)
    assert re.findall(r"^RETRY = {(.*)}$", AIRFLOW + DAGSTER, re.MULTILINE) == [listed, listed]
    assert set(map(int, listed.split(","))) < {kind.exit_code for kind in errors()}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["airflow", "dagster"])
def test_what_a_retry_can_help_is_tried_again_and_nothing_else(
    name: str, pipeline: Pipeline, tmp_path: Path
) -> None:
    flows = Flows(name, pipeline, tmp_path)
    pipeline.begin()
    with pipeline.follow("--build"):
        pipeline.source.insert(1)
        assert flows.run("fresh") == {"fresh": ("success", 1)}
    pipeline.source.insert(1)
    assert flows.run("fresh") == {"fresh": ("failed", 1)}
    with ExitStack() as loaders:

        def start_loader_after_the_first_try() -> None:
            wait_until(lambda: NO_LOADER in flows.log.read_text(), "the audit fails", 300)
            loaders.enter_context(pipeline.follow("--build"))

        once, twice = ("success", 1), ("success", 2)
        ends = list(flows.run("night", start_loader_after_the_first_try).values())
        assert sorted(ends) == [once, once, twice], flows.log.read_text()
        pipeline.target.execute("update analytics.ft_service_stats set live_count = live_count + 1")
        assert flows.run("night")["audit"] == ("failed", 1), flows.log.read_text()
    flows.set(LOADER_SLOT="of_nobody")
    ends_of_nobody = flows.run("night")
    assert ends_of_nobody["audit"] == ends_of_nobody["archive"] == ("failed", 1)
