"""A lag in seconds is how long ago the WAL ended where the loader is."""

from __future__ import annotations

import pytest

from loader.monitoring.wal_clock import IDLE_WAL_BYTES, WalClock

MB = 1024 * 1024


def clock(*points: tuple[float, int]) -> WalClock:
    made = WalClock()
    for moment, wal_end in points:
        made.add(moment, wal_end)
    return made


def test_a_position_between_two_moments_lies_between_them() -> None:
    known = clock((0, 0), (10, 10 * MB), (20, 30 * MB))
    assert known.seconds_behind(5 * MB, 20) == 15
    assert known.seconds_behind(20 * MB, 20) == 5
    assert known.seconds_behind(30 * MB, 20) == 0


def test_what_an_idle_loader_leaves_is_no_lag() -> None:
    known = clock((0, 0), (1000, IDLE_WAL_BYTES))
    assert known.seconds_behind(0, 2000) == 0
    assert clock((0, 0), (1000, IDLE_WAL_BYTES + 1)).seconds_behind(0, 2000) == 2000


def test_a_source_that_was_idle_does_not_add_its_rest_to_the_lag() -> None:
    known = clock((0, 5 * MB), (100, 5 * MB), (200, 5 * MB), (205, 6 * MB))
    assert known.seconds_behind(5 * MB, 205) == 5


def test_a_loader_that_starts_behind_knows_since_when() -> None:
    known = clock((3600, 60 * MB))
    assert known.seconds_behind(10 * MB, 3600) == 0
    known.add_earlier(0, 0)
    assert known.seconds_behind(10 * MB, 3600) == pytest.approx(3000)
    known.add_earlier(3590, 59 * MB)
    assert known.seconds_behind(10 * MB, 3600) == pytest.approx(3000)


def test_another_servers_wal_begins_anew() -> None:
    known = clock((0, 100 * MB), (10, 200 * MB), (20, 50 * MB), (30, 60 * MB))
    assert known.seconds_behind(55 * MB, 30) == 5
    assert known.seconds_behind(10 * MB, 30) == 10


def test_a_long_history_is_thinned_and_stays_right() -> None:
    known = clock(*((second, second * MB) for second in range(100_000)))
    assert len(known._points) <= 1000
    assert known.seconds_behind(1000 * MB, 100_000) == pytest.approx(99_000, abs=1)


def test_idleness_does_not_blur_what_came_before() -> None:
    idle = ((moment, 11 * MB) for moment in range(10, 5000))
    known = clock((0, 0), (5, 10 * MB), *idle)
    assert known.seconds_behind(10 * MB, 5000) == 4995
