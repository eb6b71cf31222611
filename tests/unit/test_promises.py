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


def test_every_line_of_the_page_is_in_the_table() -> None:
    plain = [" ".join(line.replace("**", "").split()) for line in LINES]
    missing = [line for line in plain if not any(line.startswith(row) for row in ROWS)]
    assert missing == []


def test_the_table_has_no_line_that_is_gone() -> None:
    plain = [" ".join(line.replace("**", "").split()) for line in LINES]
    promises = [row for row in ROWS if re.match(r"[1-8] ", row)]
    assert len(promises) == 8
    gone = [row for row in ROWS if not any(line.startswith(row) for line in plain)]
    assert gone == promises


def test_what_the_page_says_to_run_is_there() -> None:
    gone = [path for path in re.findall(r"\btests/[\w./]+", PAGE) if not (ROOT / path).exists()]
    assert gone == []


@pytest.mark.parametrize("promise", ROWS)
def test_its_tests_are_there(promise: str) -> None:
    for file, name in re.findall(r"`([^`]+)::(\w+)`", ROWS[promise]):
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"


def test_the_tests_to_copy_are_there() -> None:
    named = re.findall(r"`(tests/[^`]+)::(\w+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(named) == 3
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"
