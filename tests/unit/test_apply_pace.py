"""The pauses between calls of cdc.apply: a budget over a second."""

from __future__ import annotations

from collections.abc import Iterable

from loader.applying.pace import Pace
from waltally.limits import Limits

SHARE = 0.2


def run(pace: Pace, calls: Iterable[float], now: float = 0.0) -> tuple[list[float], float]:
    """Make the calls one after the other; return the pauses, and when the last one ended."""
    pauses = []
    for seconds in calls:
        pauses.append(pace.pause(now + seconds, seconds))
        now += seconds + pauses[-1]
    return pauses, now


def test_calls_keep_within_their_share() -> None:
    pace = Pace(SHARE)
    _, began = run(pace, [0.003] * 200)
    _, ended = run(pace, [0.003] * 500, began)
    assert 0.9 * SHARE < 500 * 0.003 / (ended - began) < 1.05 * SHARE


def test_a_slow_call_buys_no_long_pause_and_is_paid_back() -> None:
    pace = Pace(SHARE)
    usual, now = run(pace, [0.003] * 200)
    (pause,), now = run(pace, [0.04], now)
    assert pause < 2 * usual[-1] < Limits().longest_pause / 2
    began = now
    _, ended = run(pace, [0.003] * 60, now)
    assert (0.04 + 60 * 0.003) / (ended - began + 0.04) < 1.2 * SHARE


def test_a_pause_is_short_and_after_a_rest_and_without_a_limit_there_is_none() -> None:
    pace = Pace(SHARE)
    _, now = run(pace, [0.003] * 200)
    (pause,), _ = run(pace, [0.003], now + 2)
    assert pause < 0.001
    assert set(run(Pace(SHARE), [0.5] * 5)[0]) == {Limits().longest_pause}
    assert set(run(Pace(1), [0.003] * 10)[0]) == {0.0}
