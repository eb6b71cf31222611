"""The error of a soak: a change was lost, doubled or confirmed early, or a part did not recover."""

from __future__ import annotations


class SoakFailed(AssertionError):
    """A promise does not hold; the message says which and shows it."""
