"""The runbook is whole: every exit code, every alert, and every place that it points to."""

from __future__ import annotations

import re

import pytest
import waltally_jobs.common.errors  # noqa: F401  # the Spark jobs' codes stand in the same table

from testkit.commands import ROOT
from tests.operations.ops_files import alerts
from tests.runbook.procedure import RUNBOOK, section

DAY_ONE = (ROOT / "docs" / "containers.md").read_text().partition("\n## Containers")[0]


PROCEDURES = re.findall(r"^### (.+)$", RUNBOOK[RUNBOOK.index("\n## Procedures") :], re.MULTILINE)


def test_no_section_is_of_an_alert_that_is_gone() -> None:
    sections = set(re.findall(r"^### (Waltally\w+)$", RUNBOOK, re.MULTILINE))
    assert sections == alerts().keys()


@pytest.mark.parametrize("title", PROCEDURES)
def test_every_procedure_names_tests_that_are_there(title: str) -> None:
    text = section(title)
    if not re.search(r"^(```|1\. )", text, re.MULTILINE):
        return
    shown = text.partition("*Shown by*")[2]
    places = re.findall(r"`(tests/[^`]+)`", shown)
    assert places, title
    for place in places:
        assert (ROOT / place).exists(), place
