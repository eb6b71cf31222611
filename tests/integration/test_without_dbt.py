"""What runs beside the database needs neither dbt nor Spark."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from testkit.commands import LOADER, run, sentence
from testkit.pipeline import Pipeline
from testkit.project import host_project
from tests.integration.test_host_project import NOTES

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
