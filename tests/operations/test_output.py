"""Standard output may be closed, or lead to a full disk: no traceback, and the work is done."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testkit.commands import LOADER
from testkit.pipeline import Pipeline

COMMANDS = (
    "status",
    "status --json",
    "stats",
    "stats ft_service_stats",
    "prune",
    "setup",
    "setup --check",
    "wait --lsn 0/1",
    "files",
    "--help",
)


def test_where_standard_output_takes_nothing_a_sentence_says_so(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    is_silent = {"wait --lsn 0/1"}
    for command in COMMANDS:
        arguments = command.split()
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(LOADER), *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=pipeline.environment(),
            )
        assert "Traceback" not in done.stderr, (command, done.stderr)
        assert done.returncode == (0 if command in is_silent else 1), (command, done.stderr)
        if command not in is_silent:
            said = "Error: The output cannot be written: No space left on device; "
            assert said in done.stderr, (command, done.stderr)
            assert "\nTry: " in done.stderr
        closed = subprocess.run(
            ["sh", "-c", f'"{LOADER}" {command} >&-'],
            capture_output=True,
            text=True,
            env=pipeline.environment(),
        )
        assert closed.returncode == 0, (command, closed.stderr)
    away = pipeline.environment(LOADER_SOURCE_DSN="host=/nowhere")
    for nowhere in ("2>/dev/full", "2>&-", ">&- 2>&-"):
        ended = subprocess.run(["sh", "-c", f'"{LOADER}" status {nowhere}'], env=away)
        assert ended.returncode == 10, nowhere
