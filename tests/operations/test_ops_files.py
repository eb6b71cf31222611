"""The dashboard and the alerts name only what there is, and an alert fires on what it is for.

`make lint-alerts` tries the alerts that look back on series of values.
"""

from __future__ import annotations

import re

import promql_parser
import pytest

from testkit.commands import ROOT
from tests.operations.ops_files import (
    OF_OTHERS,
    NeedsHistory,
    Samples,
    alerts,
    dashboard_queries,
    documented,
    evaluate,
    firing,
    selectors,
)

SLOT = frozenset({("slot", "s")})
FACT = frozenset({("slot", "s"), ("fact", "analytics.ft_service_stats")})
OURS = {"slot", "status", "state"}
UP = frozenset({("job", "waltally"), ("instance", "i")})


def status(state: str) -> Samples:
    return {"waltally_wal_status": [(frozenset({("slot", "s"), ("status", state)}), 1.0)]}


def fact_state(state: str) -> Samples:
    return {"waltally_fact_state": [(FACT | {("state", state)}, 1.0)]}


BAD: dict[str, Samples] = {
    "WaltallyLoaderDown": {"up": [(UP, 0.0)]},
    "WaltallyNotFollowing": {"waltally_following": [(SLOT, 0.0)]},
    "WaltallySourceUnreachable": {"waltally_source_up": [(SLOT, 0.0)]},
    "WaltallyTargetUnreachable": {"waltally_target_up": [(SLOT, 0.0)]},
    "WaltallyLag": {"waltally_lag_seconds": [(SLOT, 301.0)]},
    "WaltallyBatchStuck": {"waltally_batch_open_seconds": [(SLOT, 601.0)]},
    "WaltallyWalHeld": {"waltally_wal_held_bytes": [(SLOT, 9e9)]},
    "WaltallySafeWalLow": {
        "waltally_safe_wal_size_bytes": [(SLOT, 1e9)],
        "waltally_wal_held_bytes": [(SLOT, 2e9)],
    },
    "WaltallySlotUnreserved": status("unreserved"),
    "WaltallySlotLost": status("lost"),
    "WaltallySlotIdle": {
        "waltally_slot_inactive_seconds": [(SLOT, 1801.0)],
        "waltally_slot_idle_left_seconds": [(SLOT, 1799.0)],
    },
    "WaltallyFactLag": {"waltally_fact_lag_seconds": [(FACT, 301.0)]},
    "WaltallyFactFailed": fact_state("failed"),
    "WaltallyFactWaits": fact_state("waits"),
    "WaltallyScheduledRunFailed": {
        "node_systemd_unit_state": [
            (frozenset({("name", "waltally-dbt.service"), ("state", "failed")}), 1.0)
        ]
    },
    "WaltallyRejectedChanges": {"waltally_has_rejected_changes": [(FACT, 1.0)]},
}
"""For each alert that one scrape can tell: a scrape in which only it fires."""

RUNNING: Samples = {"up": [(UP, 1.0)]}


def looks_back(name: str) -> bool:
    try:
        evaluate(promql_parser.parse(alerts()[name]["expr"]), {})
    except NeedsHistory:
        return True
    return False


def test_every_alert_that_one_scrape_can_tell_is_tried() -> None:
    assert {name for name in alerts() if not looks_back(name)} == set(BAD)


@pytest.mark.parametrize("name", BAD)
def test_an_alert_fires_on_what_it_is_for_and_on_nothing_else(name: str) -> None:
    assert firing({**RUNNING, **fact_state("follows")}) == set()
    assert firing({**RUNNING, **BAD[name]}) == {name}


def test_a_slot_that_is_gone_is_a_lost_one_and_a_small_limit_is_none() -> None:
    assert firing({**RUNNING, "waltally_slot_exists": [(SLOT, 0.0)]}) == {"WaltallySlotLost"}
    small = {
        "waltally_safe_wal_size_bytes": [(SLOT, 6e7)],
        "waltally_wal_held_bytes": [(SLOT, 1e6)],
    }
    assert firing({**RUNNING, **small}) == set()
    assert firing({}) == {"WaltallyLoaderDown"}


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
