"""Ages and sizes, as a person gives and reads them. Pure."""

from __future__ import annotations

import re

from waltally.errors import SettingError

_AGE = re.compile(r"(\d+)([smhdw])")
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


def show_age(seconds: float) -> str:
    """Return an age in the largest unit that it fills."""
    unit = next((u for u in ("d", "h", "m") if seconds >= _UNITS[u]), "s")
    if unit == "s":
        return f"{seconds:.0f}s"
    return f"{seconds / _UNITS[unit]:.3g}{unit}"


def show_size(size: int) -> str:
    """Return a number of bytes in MB, from 1,000 MB on in GB."""
    megabytes = size / 2**20
    return f"{megabytes:,.1f} MB" if megabytes < 1000 else f"{megabytes / 1024:,.1f} GB"
