"""The installed wheel in an empty directory, with a dbt project that names its package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from testkit.commands import LOADER
from testkit.databases import Database
from testkit.project import host_project
from testkit.wheel import build_wheel
from tests.integration.test_host_project import NOTES

_LOADER = "from loader.cli import main; main()"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, as pip lays them out."""
    site = tmp_path_factory.mktemp("site")
    ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))).extractall(site)
    return site


def run(
    command: list[str], cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_setup_and_run_with_build_work_outside_the_repository(
    source: Database, installed: Path, tmp_path: Path
) -> None:
    source.execute("alter table unrelated replica identity full")
    # What is imported comes from the wheel, because PYTHONPATH goes before what is installed.
    environment = {
        **source.environment(LOADER_MANIFEST="", PYTHONPATH=str(installed), HOME=str(tmp_path)),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }
    loader = [sys.executable, "-c", _LOADER]
    project = host_project(tmp_path, {"ft_notes": NOTES})
    (project / "dbt_packages" / "waltally").unlink()
    files = Path(run([*loader, "files"], project, environment).stdout.strip())
    assert files == installed / "loader" / "shipped"
    packages = {"packages": [{"local": str(files)}]}
    (project / "packages.yml").write_text(json.dumps(packages))
    shutil.copy(files / "profiles.yml.example", project / "profiles.yml")

    run([str(LOADER.parent / "dbt"), "deps"], project, environment)
    assert "registered ft_notes" in run([*loader, "setup"], project, environment).stdout
    run([str(LOADER.parent / "dbt"), "run"], project, environment)
    source.execute("insert into unrelated (note) values ('a'), ('a'), ('b')")
    run([str(LOADER.parent / "dbt"), "run"], project, environment)
    source.execute("insert into unrelated (note) values ('a')")
    run([*loader, "run", "--once", "--build"], project, environment)
    counted = source.execute("select note, row_count from analytics.ft_notes order by note")
    assert counted == [("a", 3), ("b", 1)]
    assert not (files / "target").exists(), "nothing is written to the installed files"


@pytest.mark.slow
@pytest.mark.parametrize("job", ["seed", "audit"])
def test_a_job_starts_outside_the_repository(job: str, installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "NO_COLOR": "1"}
    script = installed / "loader" / "shipped" / "spark" / f"{job}.py"
    said = run([sys.executable, str(script), "--help"], tmp_path, environment).stdout
    assert f"spark-submit spark/{job}.py" in said
