"""What a seed and an audit print while they count."""

from __future__ import annotations

import pytest
from waltally_jobs.common.progress import Measure, line


@pytest.mark.parametrize(
    ("pages", "rows", "shown"),
    [
        (0, 0, "  0%, 0 rows read, 0 rows/s"),
        # A small table has ended, and nothing of the large one: no time can be told of that.
        (3, 900, "  0%, 900 rows read, 90 rows/s"),
        (2_500, 50_000, " 25%, 50,000 rows read, 5,000 rows/s, about 30 s left"),
        (10_000, 200_000, "100%, 200,000 rows read, 20,000 rows/s"),
        # The tables have grown since their pages were counted.
        (10_400, 208_000, "100%, 208,000 rows read, 20,800 rows/s"),
    ],
)
def test_the_time_left_is_said_once_enough_is_read(pages: int, rows: int, shown: str) -> None:
    assert line(Measure(pages, 10_000, rows), seconds=10) == shown
