"""Stages change the slot's messages on their way to the queue, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from loader.capture.wal2json import Message

Stage = Callable[[list[Message]], list[Message]]
"""Takes the messages that came together and returns those for the next stage.

A stage may keep some until its next call, but none beyond the end of their transaction.
"""
