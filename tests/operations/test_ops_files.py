"""The dashboard and the alerts are valid, and name only what there is.

`make lint-alerts` tries the alerts on series of values.
"""

from __future__ import annotations

import re

from testkit.commands import ROOT
from tests.operations.ops_files import (
    OF_OTHERS,
    alerts,
    dashboard_queries,
    documented,
    selectors,
)

OURS = {"slot", "status", "state"}


def test_every_alert_says_what_to_run_and_has_its_place_in_the_runbook() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for name, rule in alerts().items():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, name
        assert rule["labels"]["severity"] in ("page", "ticket"), name
        assert re.fullmatch(r"\d+m", rule.get("for", "0m")), name
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}, name
        assert re.search(r"`[^`]+`", notes["description"]), f"{name} names nothing to run"
        assert notes["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        assert name.lower() in anchors, f"{name} is not in the runbook"


def test_every_query_parses_and_names_documented_metrics_and_labels() -> None:
    names = set(OF_OTHERS)
    for name, (kind, _) in documented().items():
        histogram = kind == "histogram"
        names |= {name + end for end in ("_bucket", "_sum", "_count")} if histogram else {name}
    queries = [rule["expr"] for rule in alerts().values()] + dashboard_queries()
    for query in queries:
        assert selectors(query), query
        for selector in selectors(query):
            assert selector.name in names, query
            labels = {matcher.name for matcher in selector.matchers.matchers}
            of_others = {"job", "name", "state", "job_name", "cronjob"}
            assert labels <= (of_others if selector.name in OF_OTHERS else OURS), query


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {
        re.sub("_bucket$", "", str(selector.name))
        for query in dashboard_queries()
        for selector in selectors(query)
    }
    assert shown == set(documented())
