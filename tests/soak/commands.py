"""The project's commands in the environment of a soak."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from testkit.commands import ROOT, run
from tests.soak.failure import SoakFailed

_OWN_VARIABLES = ("PG", "LOADER_", "DBT_")


def environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings and what commands need besides, with their files under `home`."""
    shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)
    }
    return {
        **inherited,
        **settings,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DBT_PROFILES_DIR": str(home),
        "DBT_TARGET_PATH": str(home / "target"),
        "DBT_LOG_PATH": str(home / "logs"),
        "SPARK_LOCAL_DIRS": str(home / "spark"),
        "TMPDIR": str(home),
    }


def run_to_end(command: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Run a command. Raises SoakFailed where it fails."""
    done = run(list(command), environment)
    if done.returncode:
        raise SoakFailed(
            f"{' '.join(command)} ended with exit code {done.returncode}:\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )


def spawn(
    command: tuple[str, ...], environment: Mapping[str, str], home: Path
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own; its output goes to a file in `home`."""
    with (home / f"{Path(command[0]).name}.log").open("ab") as output:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a spawned command and every process that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
