"""What the demo, a test run and a Spark job make in the temporary folder goes with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from testkit import run_folder
from testkit.commands import LOADER, ROOT, wait_until

RUN = """
from testkit import run_folder
from testkit.servers import Cluster

home = run_folder.make()
cluster = Cluster({"fsync": "off"})
cluster.create()
cluster.start()
pid = (cluster.data / "postmaster.pid").read_text().split()[0]
print(home, pid, sep="\\n", flush=True)
input()
"""
SPARK_SUBMIT = LOADER.parent / "spark-submit"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder as TMPDIR, which the user postgres can reach too."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


def start_run() -> tuple[subprocess.Popen[str], Path, int]:
    """Start a run with a server; return its process, its folder and the server's process."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip()), int(process.stdout.readline())


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(temporary: Path) -> None:
    killed, left, server = start_run()
    kill(killed)
    assert is_running(server)
    alive, kept, living_server = start_run()
    try:
        assert not left.exists()
        wait_until(lambda: not is_running(server), "the end of the killed run's server")
        run_folder.remove_dead()
        assert kept.is_dir()
        assert is_running(living_server)
    finally:
        kill(alive)
        run_folder.remove_dead()
    wait_until(lambda: not list(temporary.iterdir()), "an empty folder")


@pytest.mark.parametrize(
    "end",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(None, marks=pytest.mark.slow),
    ],
)
def test_a_spark_job_leaves_nothing_even_if_a_signal_ends_it(
    temporary: Path, end: signal.Signals | None
) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SPARK_")
    }
    job = subprocess.Popen(
        [SPARK_SUBMIT, "--master", "local[1]", "ops/spark_classes.py"],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with job:
        wait_until(lambda: list(temporary.glob("spark-*/pyspark-*")), "Spark's folders")
        if end is not None:
            job.send_signal(end)
        _, said = job.communicate(timeout=120)
    assert job.returncode == 0 if end is None else job.returncode, said
    wait_until(lambda: not list(temporary.iterdir()), "an empty folder")
