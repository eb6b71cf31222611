"""Text from data and names, as a person may see it: nothing in it moves the cursor. Pure."""

from __future__ import annotations

import re

_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, ends of lines and paragraphs, changes of direction, halves of characters."""


def escaped(text: str) -> str:
    """Return the text with each character that would do more than stand there as an escape.

    Otherwise a value could forge a line, hide what comes after it, or command the terminal.
    """
    return _HARMFUL.sub(lambda found: repr(found[0])[1:-1], text)
