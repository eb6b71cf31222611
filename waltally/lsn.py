"""A position in the write-ahead log: an integer of bytes, printed as PostgreSQL prints it."""

from __future__ import annotations

import re

WAL_END = "pg_current_wal_insert_lsn()"
"""SQL: where the WAL of a server ends."""

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def parse(text: str) -> int:
    """Return the position that `text`, such as `0/15368E0`, names.

    Raises ValueError where the text is not two hexadecimal halves.
    Source: PostgreSQL documentation, "pg_lsn Type".
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a WAL position: {text!r}")
    return int(match[1], 16) << 32 | int(match[2], 16)


def show(position: int) -> str:
    """Return the position as PostgreSQL prints it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
