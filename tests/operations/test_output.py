"""Standard output may be closed, or lead to a full disk: no traceback, and the work is done."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testkit.commands import LOADER
from testkit.pipeline import Pipeline

COMMANDS = ("status --json", "stats ft_service_stats", "setup", "wait --lsn 0/1", "--help")


def test_where_standard_output_takes_nothing_a_sentence_says_so(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    for command in COMMANDS:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(LOADER), *command.split()],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=pipeline.environment(),
            )
        assert "Traceback" not in done.stderr, (command, done.stderr)
        if command.startswith("wait"):
            assert done.returncode == 0, "it says nothing"
        else:
            said = "Error: The output cannot be written: No space left on device; "
            assert (done.returncode, said in done.stderr) == (1, True), (command, done.stderr)
            assert "\nTry: " in done.stderr
        closed = ["sh", "-c", f'"{LOADER}" {command} >&-']
        assert subprocess.run(closed, env=pipeline.environment()).returncode == 0, command
    away = pipeline.environment(LOADER_SOURCE_DSN="host=/nowhere")
    for nowhere in ("2>/dev/full", ">&- 2>&-"):
        ended = subprocess.run(["sh", "-c", f'"{LOADER}" status {nowhere}'], env=away)
        assert ended.returncode == 10, nowhere
