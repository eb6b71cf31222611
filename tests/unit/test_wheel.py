"""What is installed and shipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import waltally
from testkit.commands import ROOT, run

SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE", "requirements.lock"),
    *("dbt_project.yml", "profiles.yml.example", "selectors.yml"),
    *("waltally", "loader", "spark", "dbt_project", "ops"),
)
SHIPPED = "loader/shipped"
INFO = f"waltally-{waltally.__version__}.dist-info"


def build_wheel(folder: Path) -> Path:
    """Return the path of the wheel that WALTALLY_WHEEL names, else build it in an empty folder."""
    if named := os.environ.get("WALTALLY_WHEEL"):
        return Path(named)
    copy = folder / "copy"
    copy.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    program = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=copy, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


def files(folder: str, *endings: str) -> set[str]:
    """Return the paths of the checkout's files below a folder."""
    found = (ROOT / folder).rglob("*")
    return {
        str(path.relative_to(ROOT))
        for path in found
        if path.suffix in endings and "__pycache__" not in path.parts
    }


def test_it_holds_the_loader_the_dbt_package_and_the_spark_jobs(wheel: ZipFile) -> None:
    shipped = {
        *files("spark", ".py"),
        *files("dbt_project/macros", ".sql"),
        *files("dbt_project/models", ".sql", ".yml"),
        *files("dbt_project/tests", ".sql", ".yml"),
        *("dbt_project.yml", "profiles.yml.example", "requirements.lock", "selectors.yml"),
        "ops/spark-submit",
    }
    assert len(shipped) > 60
    expected = {
        *files("loader", ".py", ".sql"),
        *files("waltally", ".py"),
        *(f"{SHIPPED}/{path}" for path in shipped),
    }
    held = {name for name in wheel.namelist() if not name.startswith(INFO)}
    assert held == expected


def test_the_lock_pins_what_it_needs(wheel: ZipFile) -> None:
    """So `pip install -c requirements.lock` installs nothing that was not tested."""
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.M))
    metadata = Parser().parsestr(wheel.read(f"{INFO}/METADATA").decode())
    for text in metadata.get_all("Requires-Dist", []):
        package = Requirement(text)
        is_needed = package.marker is None or any(
            package.marker.evaluate({"extra": extra}) for extra in ("", "dbt", "spark")
        )
        assert package.name in pinned or not is_needed


@pytest.mark.parametrize(
    ("script", "setting", "said"),
    [
        ("find-postgres", "PG_BIN", "/nowhere lacks postgres initdb pg_ctl pg_config psql"),
        ("install-debian.sh", "PG_BIN", "/nowhere lacks postgres initdb pg_ctl pg_config psql"),
        ("install-debian.sh", "JAVA_HOME", "JAVA_HOME is /nowhere"),
        ("find-python", "PYTHON", "/nowhere"),
    ],
)
def test_what_is_not_there_is_refused_with_a_remedy(script: str, setting: str, said: str) -> None:
    done = run([str(ROOT / "ops" / script)], {**os.environ, setting: "/nowhere"})
    assert done.returncode == 1
    problem, remedy = done.stderr.splitlines()
    assert said in problem
    assert remedy.startswith("Try: ")
