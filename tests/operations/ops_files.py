"""The dashboard and the alert rules as files, and enough PromQL to try an alert on a scrape."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from typing import Any

import promql_parser
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from testkit.commands import ROOT

ALERTS = ROOT / "ops" / "prometheus-alerts.yml"
DASHBOARD = ROOT / "ops" / "grafana-dashboard.json"

Series = list[tuple[frozenset[tuple[str, str]], float]]
Samples = dict[str, Series]

OF_OTHERS = {
    "up",
    "node_systemd_unit_state",
    "node_systemd_timer_last_trigger_seconds",
    "kube_cronjob_status_last_successful_time",
}
"""Metrics of Prometheus, node_exporter and kube-state-metrics."""


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerting rules by name."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def dashboard_queries() -> list[str]:
    """Return the panels' queries with Grafana's variables filled in."""
    return [
        target["expr"].replace("$__rate_interval", "1m").replace("$slot", ".*")
        for panel in dashboard()["panels"]
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


def served_names(families: list[Metric]) -> set[str]:
    """Return the names that queries may use, also of a metric that has no series yet."""
    names = set()
    for family in families:
        endings = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        names |= {family.name + ending for ending in endings.get(family.type, [""])}
    return names


def parse(scrape: str) -> list[Metric]:
    return list(text_string_to_metric_families(scrape))


def samples(families: list[Metric]) -> Samples:
    """Return every series of a scrape by its name."""
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append(
                (frozenset(sample.labels.items()), sample.value)
            )
    return found


class NeedsHistory(Exception):
    """The query looks back in time, which one scrape cannot answer."""


def evaluate(expression: Any, scraped: Samples) -> Series:
    """Return the series that an instant query leaves, as Prometheus would. Raises NeedsHistory."""
    match expression:
        case promql_parser.VectorSelector(name=name, matchers=matchers):
            return [
                line
                for line in scraped.get(str(name), [])
                if all(_matches(each, dict(line[0])) for each in matchers.matchers)
            ]
        case promql_parser.BinaryExpr(op=op, lhs=lhs, rhs=rhs):
            return _binary(str(op), lhs, rhs, scraped)
        case promql_parser.Call(func=function, args=[argument]) if function.name == "absent":
            return [] if evaluate(argument, scraped) else [(frozenset(), 1.0)]
    raise NeedsHistory(str(expression))


def _matches(matcher: promql_parser.Matcher, labels: dict[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op == promql_parser.MatchOp.Re:
        return re.fullmatch(matcher.value, value) is not None
    return bool(value == matcher.value)


def _binary(op: str, lhs: Any, rhs: Any, scraped: Samples) -> Series:
    left = evaluate(lhs, scraped)
    if isinstance(rhs, promql_parser.NumberLiteral):
        return [line for line in left if _COMPARE[op](line[1], rhs.val)]
    right = evaluate(rhs, scraped)
    by_labels = dict(right)
    if op == "and":
        return [line for line in left if line[0] in by_labels]
    if op == "or":
        return left + [line for line in right if line[0] not in dict(left)]
    return [
        line for line in left if line[0] in by_labels and _COMPARE[op](line[1], by_labels[line[0]])
    ]


def firing(scraped: Samples) -> set[str]:
    """Return the alerts whose condition holds in this scrape, without waiting for their `for`."""
    found = set()
    for name, rule in alerts().items():
        try:
            if evaluate(promql_parser.parse(rule["expr"]), scraped):
                found.add(name)
        except NeedsHistory:
            continue
    return found


def documented() -> dict[str, tuple[str, str]]:
    """Return what docs/metrics.md says: name to type and meaning."""
    rows = re.findall(
        r"^\| `(waltally_\w+)` \| (\w+) \| (.+) \|$",
        (ROOT / "docs" / "metrics.md").read_text(),
        re.MULTILINE,
    )
    return {name: (kind, meaning) for name, kind, meaning in rows}
