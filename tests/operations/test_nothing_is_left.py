"""What a Spark job makes in the temporary folder goes with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.commands import LOADER, ROOT, wait_until


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder as TMPDIR."""
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_a_spark_job_that_a_signal_ends_leaves_nothing(temporary: Path) -> None:
    job = subprocess.Popen(
        [LOADER.parent / "spark-submit", "--master", "local[1]", "ops/spark_classes.py"],
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
