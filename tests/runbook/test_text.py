"""The runbook is whole: every exit code, every alert, and every place that it points to."""

from __future__ import annotations

import re

import waltally_jobs.common.errors  # noqa: F401  # the Spark jobs' codes stand in the same table

from testkit.commands import ROOT
from tests.operations.ops_files import alerts
from tests.runbook.procedure import RUNBOOK

_PRODUCTION = (ROOT / "docs" / "production.md").read_text()
DAY_ONE = _PRODUCTION.partition("## The first day\n")[2].partition("\n## ")[0]

SHOWN_BY = {
    "Renew": ["trouble", "runbook/test_stop.py"],
    "Seed again": ["spark", "acceptance", "runbook/test_day_one.py"],
    "Upgrade PostgreSQL: minor": ["trouble/test_server_stop.py", "integration/test_remedies.py"],
    "Upgrade PostgreSQL: major": ["runbook/test_upgrade.py"],
    "Prepare for a failover": ["integration/test_failover_slots.py"],
    "Fail over to a standby": ["integration/test_failover_slots.py", "trouble/test_failover.py"],
    "Decode on a standby": ["integration/test_standby_source.py"],
    "Restore the target from a backup": ["trouble/test_failover.py"],
    "Rebuild the warehouse from an archive": ["spark/test_from_archive.py"],
    "Move the warehouse": ["runbook/test_warehouse.py"],
    "Change the replica identity online": ["runbook/test_tables.py"],
    "Add a column": ["runbook/test_tables.py", "input/test_values.py"],
    "Add a status or a type": ["runbook/test_tables.py"],
    "Stop for a week": ["runbook/test_stop.py"],
    "The source's disk is full": ["runbook/test_stop.py"],
    "Rotate a password": ["runbook/test_warehouse.py"],
    "Changes were rejected": ["operations/test_incomplete.py", "spark/test_seed_purged.py"],
    "The audit differs": ["runbook/test_day_one.py"],
    "Upgrade waltally": ["runbook/test_upgrade.py"],
}
"""By procedure, the tests that carry it out, in tests/."""

PROCEDURES = re.findall(r"^### (.+)$", RUNBOOK[RUNBOOK.index("\n## Procedures") :], re.MULTILINE)


def test_no_section_is_of_an_alert_that_is_gone() -> None:
    sections = set(re.findall(r"^### (Waltally\w+)$", RUNBOOK, re.MULTILINE))
    assert sections == alerts().keys()


def test_every_procedure_is_shown_by_tests_that_are_there() -> None:
    assert list(SHOWN_BY) == PROCEDURES
    for places in SHOWN_BY.values():
        assert places
        for place in places:
            assert (ROOT / "tests" / place).exists(), place
