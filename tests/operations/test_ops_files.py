"""Every alert has its place in the runbook, and dashboard and alerts name only what there is.

`make lint-alerts` tries the alerts that look back; the others compare a metric with a number.
"""

from __future__ import annotations

import json
import re
from typing import Any

import promql_parser
import yaml

from testkit.commands import ROOT

ALERTS = ROOT / "ops" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "ops" / "grafana-dashboard.json"

OF_OTHERS = {
    "up",
    "node_systemd_unit_state",
    "node_systemd_timer_last_trigger_seconds",
    "kube_cronjob_status_last_successful_time",
}
"""Metrics of Prometheus, node_exporter and kube-state-metrics."""


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerting rules by name."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard_queries() -> list[str]:
    """Return the panels' queries with Grafana's variables filled in."""
    return [
        target["expr"].replace("$__rate_interval", "1m").replace("$slot", ".*")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """Return what a query reads. Raises ValueError where it is no PromQL."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


def documented() -> dict[str, tuple[str, str]]:
    """Return what docs/monitoring.md says: name to type and meaning."""
    rows = re.findall(
        r"^\| `(waltally_\w+)` \| (\w+) \| (.+) \|$",
        (ROOT / "docs" / "monitoring.md").read_text(),
        re.MULTILINE,
    )
    return {name: (kind, meaning) for name, kind, meaning in rows}


def names() -> set[str]:
    """Return the names that queries may use."""
    endings = {"histogram": ("_bucket", "_sum", "_count")}
    ours = {
        name + ending
        for name, (kind, _) in documented().items()
        for ending in endings.get(kind, ("",))
    }
    return ours | OF_OTHERS


def test_every_alert_says_what_to_run_and_has_its_place_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    assert set(re.findall(r"^### (Waltally\w+)$", runbook, re.MULTILINE)) == alerts().keys()
    for name, rule in alerts().items():
        notes = rule["annotations"]
        assert re.search(r"`[^`]+`", notes["description"]), f"{name} names nothing to run"
        assert notes["runbook_url"] == f"docs/runbook.md#{name.lower()}"


def test_every_query_names_what_there_is_and_the_dashboard_shows_every_metric() -> None:
    ours, of_others = {"slot", "status", "state"}, {"job", "name", "state", "job_name", "cronjob"}
    for query in [rule["expr"] for rule in alerts().values()] + dashboard_queries():
        assert selectors(query), query
        for selector in selectors(query):
            assert selector.name in names(), query
            labels = {matcher.name for matcher in selector.matchers.matchers}
            assert labels <= (of_others if selector.name in OF_OTHERS else ours), query
    shown = {
        re.sub("_bucket$", "", str(selector.name))
        for query in dashboard_queries()
        for selector in selectors(query)
    }
    assert shown == set(documented())
