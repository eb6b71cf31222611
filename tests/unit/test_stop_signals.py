"""A loader that is told to stop stops, whatever it is doing at that moment."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import signal
from loader.verbs.run import stop_event

with stop_event(signal.SIGALRM) as stop:
    for number in range(300):
        stop.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + number * 1e-7)
        while not stop.wait(0):
            pass
print("stopped each time")
"""


def test_a_signal_in_the_middle_of_a_wait_stops_the_loader() -> None:
    """The program is nearly always inside `Event.wait`, often with its lock held."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "stopped each time\n", done.stderr
