"""Text from data and names, made safe for a terminal and a log. Pure."""

from __future__ import annotations

import re

_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, ends of lines and paragraphs, changes of direction, halves of characters."""


def escaped(text: str) -> str:
    """Return the text with control characters and the like written as escapes.

    Otherwise a value could forge a line, hide the text after it, or command the terminal.
    """
    return _HARMFUL.sub(lambda match: repr(match[0])[1:-1], text)
