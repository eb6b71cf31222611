"""The demo reaches its own server, whatever database and Spark the caller's shell names."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from testkit.commands import ROOT

ELSEWHERE = {
    "PGSERVICE": "production",
    "PGHOSTADDR": "192.0.2.1",
    "PGSSLMODE": "verify-full",
    "PGTARGETSESSIONATTRS": "standby",
    "PGOPTIONS": "-c default_transaction_read_only=on",
    "PGUSER": "nobody",
    "LOADER_SCHEMA": "other",
    "DBT_SCHEMA": "other",
    "SPARK_HOME": "/nowhere",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
}
DEMO = """
import os, sys
from demo import run

def operate(example, installed, warehouse, commands, *others, **more):
    commands.run("sh", "-c", "env >&2; exit 3")

run.operate = operate
sys.exit(run.main(["--rows", "1000"]))
"""


def run(home: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **ELSEWHERE, "PGCONNECT_TIMEOUT": "5", "TMPDIR": str(home)},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that the user postgres can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if Path(tempfile.gettempdir()) in folder.parents:
            folder.chmod(0o755)
    made = tmp_path / "a folder, whose path is too long for a socket"
    made.mkdir(mode=0o755)
    return made


def test_the_demo_fills_its_own_server_and_its_commands_see_no_other(home: Path) -> None:
    said = run(home, "-c", DEMO)
    assert "sh ended with exit code 3:" in said
    settings = [f"{name}={value}" for name, value in ELSEWHERE.items()]
    assert [setting for setting in settings if setting in said] == []
