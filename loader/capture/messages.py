"""What comes out of the slot, as the loader handles it. Pure: no driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_EPOCH = 946_684_800
"""2000-01-01 UTC, in seconds since 1970."""


class Begin(NamedTuple):
    """The start of a source transaction; it already has the position of the end."""

    commit_lsn: int
    """Where the commit record starts: the position of the whole transaction."""
    end_lsn: int
    """Where the commit record ends: the position to confirm once the transaction is stored."""
    xid: int
    committed_at: int
    """Microseconds since 2000-01-01 UTC, the wire form of a timestamptz."""

    @property
    def committed_seconds(self) -> float:
        """When it was committed, in seconds since 1970."""
        return _EPOCH + self.committed_at / 1e6


class Commit(NamedTuple):
    """The end of a source transaction."""

    end_lsn: int


Change = bytes
"""One change, untouched."""


class Keepalive(NamedTuple):
    """The server says that it has sent every commit before `position`."""

    position: int
    wants_reply: bool


class Altered(NamedTuple):
    """DDL that may have changed rows with no change of any (loader/source/note_ddl.sql)."""

    schema: str
    table: str | None
    """None: every table of the schema."""
    columns: frozenset[str] | None
    """Those that may have other values; None: all."""


Message = Begin | Change | Commit | Altered | Keepalive

Decode = Callable[[bytes], Message | None]
"""What reads a payload; None where there is nothing to store."""
