"""The demo reaches its own server, whatever database and Spark the caller's shell names."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

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
import sys
from demo import run

def operate(example, installed, warehouse, commands, *others, **more):
    commands.run("sh", "-c", "env >&2; exit 3")

run.operate = operate
sys.exit(run.main(["--rows", "1000"]))
"""


def test_the_demo_fills_its_own_server_and_its_commands_see_no_other() -> None:
    with tempfile.TemporaryDirectory(suffix=" too long for the path of a socket" * 3) as home:
        Path(home).chmod(0o755)  # the user postgres has its data in there
        environment = {**os.environ, **ELSEWHERE, "PGCONNECT_TIMEOUT": "5", "TMPDIR": home}
        done = subprocess.run(
            [sys.executable, "-c", DEMO], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    said = done.stdout + done.stderr
    assert "sh ended with exit code 3:" in said
    settings = [f"{name}={value}" for name, value in ELSEWHERE.items()]
    assert [setting for setting in settings if setting in said] == []
