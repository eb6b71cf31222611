"""What a Spark job or a run of the tests makes in the temporary folder goes with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.commands import LOADER, ROOT, wait_until


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder as TMPDIR."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # else the user postgres could not reach its data in there
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_spark_job_that_a_signal_ends_leaves_nothing(temporary: Path) -> None:
    job = subprocess.Popen(
        [LOADER.parent / "spark-submit", "--master", "local[1]", "testkit/spark_classes.py"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("SPARK_")},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with job:
        wait_until(lambda: list(temporary.glob("spark-*/pyspark-*")), "Spark's folders")
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=120)
    assert job.returncode, said
    wait_until(lambda: not list(temporary.iterdir()), "an empty folder")


@pytest.mark.parametrize(
    "sign",
    [
        signal.SIGKILL,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGTERM)),
    ],
)
def test_a_run_of_the_tests_that_a_signal_ends_leaves_nothing(
    temporary: Path, sign: signal.Signals
) -> None:
    """Ctrl-C goes to all of its processes, as in a terminal; the others to the first one alone."""
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n", "1", "tests/operations/test_wait.py"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    with run:
        wait_until(lambda: list(temporary.rglob("postmaster.pid")), "a server runs")
        if sign == signal.SIGINT:
            os.killpg(run.pid, sign)
        else:
            run.send_signal(sign)
        assert run.wait(timeout=20) != 0
    inside = f"TMPDIR={temporary}"
    wait_until(
        lambda: not any(inside in text_of(each) for each in Path("/proc").glob("[0-9]*/environ")),
        "no process of the run",
    )
    assert list(temporary.iterdir()) == []


def text_of(file: Path) -> str:
    """Return what is in the file; nothing of a process that has ended."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
