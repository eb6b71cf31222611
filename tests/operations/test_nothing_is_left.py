"""What a run of the tests makes in the temporary folder goes with it, however it ends."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from testkit.commands import ROOT, wait_until


def test_a_run_of_the_tests_that_is_killed_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = Path(tempfile.mkdtemp())
    temporary.chmod(0o755)  # else the user postgres could not reach its data in there
    monkeypatch.setenv("TMPDIR", str(temporary))
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n", "1", "tests/operations/test_wait.py"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        wait_until(lambda: list(temporary.rglob("postmaster.pid")), "a server runs")
        run.kill()
    inside = f"TMPDIR={temporary}"
    wait_until(
        lambda: not any(inside in text_of(each) for each in Path("/proc").glob("[0-9]*/environ")),
        "no process of the run",
    )
    assert list(temporary.iterdir()) == []
    shutil.rmtree(temporary)


def text_of(file: Path) -> str:
    """Return what is in the file; nothing of a process that has ended."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
