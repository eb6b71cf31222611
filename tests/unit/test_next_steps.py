"""What `loader init` tells a person to type."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from loader import shipped_files
from loader.setup import project
from loader.setup.project import missing_tools


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The bin folder of an environment that has what `make install` puts there."""
    shutil.copy(shipped_files.FOLDER / "ops" / "spark-submit", tmp_path)
    return tmp_path


def test_nothing_is_missing_after_make_install(commands: Path) -> None:
    assert missing_tools(commands) == []


def test_pip_s_spark_submit_is_replaced(commands: Path) -> None:
    (commands / "spark-submit").write_text("pip's")
    shipped = shipped_files.FOLDER / "ops" / "spark-submit"
    assert missing_tools(commands) == [f"install -m 755 {shipped} {commands}/"]


@pytest.mark.parametrize(
    ("missing", "extras"),
    [({"dbt.cli", "pyspark"}, "dbt,spark"), ({"dbt.cli"}, "dbt"), ({"pyspark"}, "spark")],
)
def test_what_is_missing_is_installed_in_the_loader_s_environment(
    commands: Path, monkeypatch: pytest.MonkeyPatch, missing: set[str], extras: str
) -> None:
    monkeypatch.setattr(project, "find_spec", lambda name: None if name in missing else name)
    (commands / "spark-submit").unlink()
    pip, submit = missing_tools(commands)
    assert pip.startswith(f"{sys.executable} -m pip install -c ")
    assert pip.endswith(f" 'waltally[{extras}]'")
    assert submit.startswith("install -m 755 ")
