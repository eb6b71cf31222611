"""What is done to the messages of the slot on their way to the queue, one stage after the other."""

from __future__ import annotations

from collections.abc import Callable

from loader.capture.wal2json import Message

Stage = Callable[[list[Message]], list[Message]]
"""Takes the messages that came together and returns what goes on.

It may hold some back until the next call, but none beyond the end of their transaction.
"""
