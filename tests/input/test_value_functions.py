"""What the functions of the staging schema read: values of the plugin's text, and times."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from loader.staging.migrate import upgrade
from testkit.databases import Database
from tests.input.test_values import HOSTILE

LONG = ["x" * odd + sign * size for odd in (0, 1) for sign in '"\\' for size in range(1990, 2010)]
"""Printed they end around the place up to which a text is searched before all is parsed."""

TIMES = [
    *(f"{year}-{month}-28" for year in ("0000", "0001", "2024", "9999") for month in ("02", "12")),
    *(f"{year}-02-29" for year in ("1900", "2000", "2023", "2024")),
    *(f"2024-{month:02}-{day}" for month in range(14) for day in ("00", "30", "31", "32")),
    *("2024-1-01", "12024-01-01", "-infinity", "0044-03-15 BC", "2024-02-30 10:00:00", ""),
    *("2024-01-01 23:59:59", "2024-01-01 24:00:00", "2024-01-01 12:60:00", "2024-01-01 12:00"),
    *("2024-01-01 12:00:00.5", "2024-01-01 12:00:00.1234567", "2024-01-01 12:00:00.123456"),
]


@pytest.fixture
def staging(database: Database) -> Database:
    upgrade(database.connection, "cdc")
    return database


def test_a_text_is_read_whatever_it_holds_and_however_long_it_is(staging: Database) -> None:
    for text in (*HOSTILE, *LONG):
        images = [{"name": "other", "value": text}, {"name": "text", "value": text}]
        message = {"action": "I", "columns": [*images, {"name": "last", "value": None}]}
        printed = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        ((found,),) = staging.execute("select cdc.image_value(%s, 'text')", printed)
        assert (json.loads(found[1:]) if found.startswith("\\") else found) == text


def is_time(type_: str, text: str) -> bool:
    if type_ == "timestamptz":
        return text.endswith("+00") and is_time("timestamp", text.removesuffix("+00"))
    least, most = (10, 10) if type_ == "date" else (19, 26)
    try:
        return least <= len(text) <= most and datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz"])
def test_a_time_is_one_of_the_calendar_in_the_form_of_its_type(
    staging: Database, type_: str
) -> None:
    texts = [text + zone for text in TIMES for zone in ("", "+00", "+01")]
    rows = staging.execute(
        "select text, cdc.takes(%s, text) from unnest(%s) as text order by 1", type_, texts
    )
    assert rows == [(text, is_time(type_, text)) for text in sorted(texts)]
    assert {taken for _, taken in rows} == {True, False}
