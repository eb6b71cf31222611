"""Ages, sizes and numbers of things, as a person gives and reads them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from waltally.errors import SettingError

_AGE = re.compile(r"(\d+)([smhdw])")
_LENGTHS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_age(text: str, option: str = "--keep") -> int:
    """Return the seconds of an age such as `7d`. Raises SettingError."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise SettingError(
            f"{option} is {text!r}: not a number with s, m, h, d or w",
            f"{option} 7d is seven days, {option} 30s half a minute",
        )
    return int(match[1]) * _UNITS[match[2]]


def duration(seconds: float) -> str:
    """Return a length of time in its largest fitting unit, such as `3.5 h` or `0.2 s`."""
    for length, unit in _LENGTHS:
        # As it is rounded: 59.96 s would be 60 s.
        if round(seconds, 0) >= length:
            return f"{seconds / length:.1f} {unit}"
    seconds = max(0.0, seconds)
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def ago(moment: str) -> str:
    """Return how long ago an ISO 8601 time was, such as `12 s ago`."""
    return f"{duration((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())} ago"


def size(number: float) -> str:
    """Return an amount of WAL, such as `4.2 kB`; units are powers of 1000."""
    if number < 1000:
        return "1 byte" if number == 1 else f"{number:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 999.95:
            return f"{number:.1f} {unit}"
    return f"{number / 1000:,.1f} TB"


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: `1 change`, `2,000 changes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
