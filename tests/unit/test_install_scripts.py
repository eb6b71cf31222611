"""`make install` needs nothing here, and refuses a server, a Java or a Python that is not there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

OPS = Path(__file__).parents[2] / "ops"


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OPS / script], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_this_machine_has_everything() -> None:
    done = run("install-debian.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
    done = run(script, **{setting: "/nowhere"})
    assert done.returncode == 1
    problem, remedy = done.stderr.splitlines()
    assert said in problem
    assert remedy.startswith("Try: ")
