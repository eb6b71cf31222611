"""What a seed says of the purged rows of a fact. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FORGET = "--forget-purged counts the stored rows alone"


@dataclass(frozen=True)
class Purged:
    """What became of a fact's purged rows: how many, in how many groups; None: not known."""

    outcome: Literal["kept", "forgotten", "unknown"]
    rows: int | None
    groups: int | None


NONE = Purged("kept", 0, 0)
UNKNOWN = Purged("unknown", None, None)


@dataclass(frozen=True)
class Between:
    """What the changes between a fact and the snapshot did besides adding to groups.

    `emptied` are the parts with a TRUNCATE. `has_rejected`: some cannot be counted, of tables for
    which purged rows are compared.
    """

    emptied: frozenset[str] = frozenset()
    has_rejected: bool = False
