"""A connection string given as a flag may carry a password, which `ps` would show to everyone."""

from __future__ import annotations

import os
import sys

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

_FLAGS = {"--source": "LOADER_SOURCE_DSN", "--target": "LOADER_TARGET_DSN"}


def hide_passwords() -> None:
    """Restart this process with such strings in its environment instead of its title."""
    kept, moved = split(sys.argv)
    if moved:
        os.execve(sys.executable, [sys.executable, *kept], {**os.environ, **moved})


def split(argv: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments without connection strings that carry a password, and those by name.

    The flag wins over the environment either way, so moving it there changes nothing else.
    """
    kept: list[str] = []
    moved: dict[str, str] = {}
    rest = iter(argv)
    for argument in rest:
        flag, separator, value = argument.partition("=")
        if flag not in _FLAGS:
            kept.append(argument)
            continue
        words = [argument]
        if not separator:
            value = next(rest, "")
            words.append(value)
        if _has_password(value):
            moved[_FLAGS[flag]] = value
        else:
            kept += words
    return kept, moved


def _has_password(dsn: str) -> bool:
    try:
        return any("password" in keyword for keyword in conninfo_to_dict(dsn))
    except ProgrammingError:
        return False
