"""The panels of ops/grafana-dashboard.json, and what Prometheus answers to their expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo.example import ROOT
from demo.prometheus import Prometheus, Series

DASHBOARD = ROOT / "ops" / "grafana-dashboard.json"


@dataclass(frozen=True)
class Window:
    """The time that is drawn, in seconds."""

    start: float
    """Since 1970, as is `end`."""
    end: float
    step: float
    rates_over: int
    """Grafana's `$__rate_interval`."""


@dataclass(frozen=True)
class Panel:
    """One panel with what it shows."""

    type_: str
    title: str
    unit: str
    """As Grafana names it."""
    mapped: Mapping[str, Mapping[str, str]]
    """By a value, the text and the colour that stand for it."""
    thresholds: tuple[tuple[float, str], ...]
    """From which value on it has which colour, ascending."""
    lines: tuple[tuple[str, Series], ...]
    """Each with its name in the legend."""


def read_panels(prometheus: Prometheus, window: Window) -> list[Panel]:
    """Ask for every expression of the dashboard; return its panels in their order.

    Raises QueryFailed where Prometheus refuses one.
    """
    dashboard = json.loads(DASHBOARD.read_text())
    return [_panel(panel, prometheus, window) for panel in dashboard["panels"]]


def _panel(panel: Mapping[str, Any], prometheus: Prometheus, window: Window) -> Panel:
    defaults = panel["fieldConfig"]["defaults"]
    lines = []
    for target in panel["targets"]:
        expression = target["expr"].replace("$slot", ".+")
        expression = expression.replace("$__rate_interval", f"{window.rates_over}s")
        for series in prometheus.query(expression, window.start, window.end, window.step):
            lines.append((_legend(target["legendFormat"], series.labels), series))
    return Panel(
        panel["type"],
        panel["title"],
        defaults["unit"],
        {
            value: shown
            for mapping in defaults.get("mappings", [])
            for value, shown in mapping["options"].items()
        },
        tuple(
            (step["value"] or 0, step["color"])
            for step in defaults.get("thresholds", {"steps": []})["steps"]
        ),
        tuple(lines),
    )


def _legend(template: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), template)
