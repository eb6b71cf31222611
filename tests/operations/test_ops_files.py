"""Every alert has its place in the runbook, and dashboard and alerts name only what there is.

`make lint-alerts` tries the alerts that look back; the others compare a metric with a number.
"""

from __future__ import annotations

import re

from testkit.commands import ROOT
from tests.operations.ops_files import (
    OF_OTHERS,
    alerts,
    dashboard_queries,
    documented,
    names,
    selectors,
)


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
