"""tests/promises.md has every line of docs/guarantees.md, each with tests that are there."""

from __future__ import annotations

import re

import pytest

from testkit.commands import ROOT

TABLE = (ROOT / "tests/promises.md").read_text()
ROWS = dict(re.findall(r"^\| (.*?) \| (`.*`|none: .*) \|$", TABLE, re.MULTILINE))
PAGE = (ROOT / "docs/guarantees.md").read_text()
LINES = re.findall(r"^- (.*(?:\n  .*)*)", PAGE, flags=re.MULTILINE)
"""A line of the page each, with what it goes on with."""


def test_the_table_has_every_line_of_the_page_and_none_that_is_gone() -> None:
    plain = [" ".join(line.replace("**", "").split()) for line in LINES]
    promises = [row for row in ROWS if re.match(r"[1-8] ", row)]
    assert len(promises) == 8
    assert [line for line in plain if not line.startswith(tuple(ROWS))] == []
    assert [row for row in ROWS if not any(line.startswith(row) for line in plain)] == promises


def test_what_the_page_says_to_run_is_there() -> None:
    gone = [path for path in re.findall(r"\btests/[\w./]+", PAGE) if not (ROOT / path).exists()]
    assert gone == []


@pytest.mark.parametrize("page", ["tests/promises.md", "CONTRIBUTING.md"])
def test_its_tests_are_there(page: str) -> None:
    named = re.findall(r"`(tests/[^`]+)::(\w+)`", (ROOT / page).read_text())
    assert len(named) >= 3
    gone = [each for each in named if f"def {each[1]}(" not in (ROOT / each[0]).read_text()]
    assert gone == []
