"""The picture of the dashboard can be drawn: its panels are there, its numbers are readable."""

from __future__ import annotations

import json

import pytest

from demo.dashboard_picture import DRAWN
from demo.draw_panels import with_unit
from demo.panels import DASHBOARD


def test_the_panels_of_the_picture_are_in_the_dashboard() -> None:
    titles = {panel["title"] for panel in json.loads(DASHBOARD.read_text())["panels"]}
    assert set(DRAWN) <= titles


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "s", "0 s"),
        (0.0224, "s", "22.4 ms"),
        (90, "s", "90 s"),
        (262_144, "bytes", "256 KiB"),
        (7_500_000, "Bps", "7.5 MB/s"),
        (3_000, "cps", "3 K/s"),
        (999.6, "none", "1000"),
    ],
)
def test_a_value_is_printed_with_its_unit(value: float, unit: str, shown: str) -> None:
    assert with_unit(value, unit) == shown
