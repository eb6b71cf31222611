"""What a seed and an audit print while the source's server reads."""

from __future__ import annotations

import pytest
from waltally_jobs.common.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_how_far_and_how_long_is_said_while_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = Progress(1_000_000, clock)
    # The last range: the table has grown since its size was asked for.
    for seconds, read in ((0.5, 0), (9.5, 50_000), (10, 200_000), (1, 0), (9, 790_000)):
        clock.now += seconds
        progress.advance(read)
    # What is short says nothing.
    assert capsys.readouterr().err == (
        "  5% of 1.0 MB, 5.0 kB/s, about 3.2 min left\n"
        " 25% of 1.0 MB, 12.5 kB/s, about 1.0 min left\n"
        "100% of 1.0 MB, 34.7 kB/s\n"
    )
