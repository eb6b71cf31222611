"""Dates and times as the stream prints them, and the periods that they are in. Pure.

As PostgreSQL reads them: a local time that comes twice is the later one, but for the midnight that
intervals are counted from; one that the clock skips is read with the offset before. cdc.period_of
and cdc.time_order are the same in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_DATE = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_FORMS = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(rf"{_DATE} {_TIME}"),
    "timestamptz": re.compile(rf"{_DATE} {_TIME}\+00"),
}
_BEFORE_ALL = re.compile(r"(?s)-infinity|[0-9]{4,}-[0-9]{2}-[0-9]{2}.* BC")
_AFTER_ALL = re.compile(r"(?s)infinity|[0-9]{5,}-[0-9]{2}-[0-9]{2}.*")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
# Days, weeks and the rules of zones are the same after so many years. The first and the last year
# that have dates here are computed in others, whose neighbours Python has too.
_CYCLE = 400
# From here on the clocks of all zones differ from UTC by whole minutes, and change at one.
_WHOLE_MINUTES = "1973"
_REMEMBERED = 50_000


def type_of(text: str) -> str | None:
    """Return which of date, timestamp and timestamptz prints a text so; None for none of them."""
    kind = "timestamptz" if text.endswith("+00") else "date" if len(text) == 10 else "timestamp"
    return kind if is_time(text, kind) else None


def is_time(text: str, type_: str) -> bool:
    """Return whether the type prints a value of the years 1 to 9999 so."""
    if _FORMS[type_].fullmatch(text) is None:
        return False
    day, month = int(text[8:10]), int(text[5:7])
    if day <= 28:
        return True
    year = int(text[:4])
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return day <= _DAYS[month - 1] and (month != 2 or day == 28 or is_leap)


def canonical(text: str) -> str:
    """Return the one text of a time: no zeros at the end of its fraction."""
    if "." not in text:
        return text
    clock, zone = (text[:-3], text[-3:]) if text.endswith("+00") else (text, "")
    return clock.rstrip("0").rstrip(".") + zone


def order(text: str) -> str | None:
    """Return a text that is in the order of the times, in UTC; None where it is no time."""
    if _BEFORE_ALL.fullmatch(text):
        return ""
    if _AFTER_ALL.fullmatch(text):
        return "infinity"
    return text.removesuffix("+00") if type_of(text) else None


def period(unit: str, zone: str, column_zone: str, is_instant: bool) -> Callable[[str], str | None]:
    """Return the function that says in which period a time is: its first day or its first instant.

    It returns None for a text that is no time, and for a date where the period begins at an
    instant. A date is its own day; a timestamp is one of column_zone.
    """
    there, of_column = _zone(zone), _zone(column_zone)
    every = None if unit == "hour" or not is_instant else int(unit.partition(" ")[0])
    # Most times are in UTC, and so are most periods.
    is_plain_day = unit == "day" and there is UTC
    is_of_minutes = every is None or every % 60 == 0

    def find(text: str) -> str | None:
        kind = type_of(text)
        if kind is None or (is_instant and kind == "date"):
            return None
        if is_plain_day and (kind != "timestamp" or of_column is UTC):
            return text[:10]
        if is_of_minutes and kind != "date" and text > _WHOLE_MINUTES:
            return begin(f"{text[:16]}:00", kind)
        return begin(text, kind)

    @lru_cache(_REMEMBERED)
    def begin(text: str, kind: str) -> str | None:
        shifted = {"0001": _CYCLE, "9999": -_CYCLE}.get(text[:4], 0)
        moment = datetime.fromisoformat(f"{int(text[:4]) + shifted:04}{text[4:19]}")
        if kind == "date":
            first = _first_day(moment.date(), unit)
        else:
            moment += timedelta(microseconds=_fraction(text))
            if kind == "timestamp":
                moment -= _offset(moment, of_column)
            local = _at(moment, there)
            if is_instant:
                begins = _begin(moment, local, there, every)
                year = begins.year - shifted
                return f"{year:04}-{begins:%m-%d %H:%M:%S}+00" if 1 <= year <= 9999 else None
            first = _first_day(local.date(), unit)
        year = first.year - shifted
        return f"{year:04}-{first:%m-%d}" if 1 <= year <= 9999 else None

    return find


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def _fraction(text: str) -> int:
    """Return the microseconds of a time."""
    return int(text[20:].removesuffix("+00").ljust(6, "0")) if text[19:20] == "." else 0


def _at(moment: datetime, zone: tzinfo) -> datetime:
    """Return the local time of a moment in UTC, both without a zone."""
    return moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)


def _offset(local: datetime, zone: tzinfo) -> timedelta:
    """Return how far a local time is before UTC: of two answers PostgreSQL takes the smaller."""
    offsets = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return min(offset for offset in offsets if offset is not None)


def _first_day(day: date, unit: str) -> date:
    if unit == "week":
        return day - day.weekday() * _DAY
    if unit == "month":
        return day.replace(day=1)
    if unit == "quarter":
        return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1) if unit == "year" else day


def _begin(moment: datetime, local: datetime, zone: tzinfo, every: int | None) -> datetime:
    """Return the instant in UTC at which the hour, or the interval of so many seconds, began."""
    if every is None:
        return moment - timedelta(
            minutes=local.minute, seconds=local.second, microseconds=local.microsecond
        )
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    # Of two midnights the first.
    offset = midnight.replace(tzinfo=zone, fold=0).utcoffset()
    assert offset is not None
    midnight -= offset
    return midnight + (moment - midnight) // (every * _SECOND) * every * _SECOND
