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
