"""Says how long a step took, and every few seconds that it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from rich.console import Console
from rich.text import Text

_SILENCE = 10.0
"""Seconds after which a step that goes on says so."""


@contextmanager
def timed(console: Console, say: Callable[[], str] = lambda: "goes on") -> Iterator[None]:
    """Print behind the step's line how long the block took; meanwhile what `say` returns."""
    began = time.monotonic()
    ended = Event()

    def report() -> None:
        while not ended.wait(_SILENCE):
            line = f"\n  {time.monotonic() - began:.0f} s: {say()}"
            console.print(Text(line, style="dim"), end="", soft_wrap=True)

    thread = Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        console.print()
        raise
    finally:
        ended.set()
        thread.join()
    console.print(f"  {time.monotonic() - began:.1f} s", style="dim")
