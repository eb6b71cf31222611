"""What a seed and an audit print while the source's server reads."""

from __future__ import annotations

import sys

import pytest
from waltally_jobs.common.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("is_terminal", "shown"),
    [
        # What is short says nothing.
        (
            False,
            "  5% of 1.0 MB, 5.0 kB/s, about 3.2 min left\n"
            " 25% of 1.0 MB, 12.5 kB/s, about 1.0 min left\n"
            "100% of 1.0 MB, 34.7 kB/s\n",
        ),
        (
            True,
            "\r\x1b[K  5% of 1.0 MB, 5.0 kB/s, about 3.2 min left"
            "\r\x1b[K 25% of 1.0 MB, 12.5 kB/s, about 1.0 min left"
            "\r\x1b[K 25% of 1.0 MB, 11.9 kB/s, about 1.1 min left"
            "\r\x1b[K100% of 1.0 MB, 34.7 kB/s"
            "\r\x1b[K",
        ),
    ],
)
def test_how_far_and_how_long_is_said_while_it_is_read(
    is_terminal: bool,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    clock = Clock()
    progress = Progress(1_000_000, clock)
    # The last range: the table has grown since its size was asked for.
    for seconds, read in ((0.5, 0), (9.5, 50_000), (10, 200_000), (1, 0), (9, 790_000)):
        clock.now += seconds
        progress.advance(read)
    progress.end()
    assert capsys.readouterr().err == shown
