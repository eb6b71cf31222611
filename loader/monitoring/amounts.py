"""Numbers with their units, as a person reads them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

_LENGTHS = ((86_400, "d"), (3_600, "h"), (60, "min"))


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
