"""What a soak ends with where something was lost, doubled, confirmed early or did not recover."""

from __future__ import annotations


class SoakFailed(AssertionError):
    """A promise does not hold; the message says which and shows it."""
