"""What a newcomer reads first is there, short, and of one subject; a function of SQL is a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.commands import ROOT

SECTION = (
    (ROOT / "CONTRIBUTING.md").read_text().partition("## The spine\n")[2].partition("\n## ")[0]
)
NAMES = [
    f"{folder}/{name}"
    for folder, names in re.findall(r"^\| [^|]*\| `([\w/]+)` \| (.*) \|$", SECTION, re.MULTILINE)
    for name in re.findall(r"`([\w.]+)`", names)
]
FILES = [ROOT / name for name in NAMES]
OTHERS = re.compile(
    r"standby|failover|timeline|partition(?! by)|\bleaf\b|\barchive\b|spark"
    r"|dependent|roll-up|models? above",
    re.I,
)
"""Subjects that are hung onto the spine."""
ENTRIES = {
    # The change log's own partitions are part of it.
    "batch.py": {"partition"},
    "session.py": {"partition"},
    "apply.sql": {"partition"},
    "change_log.py": {"partition", "standby"},
    # A reason.
    "position.py": {"standby"},
    "protocol.py": {"standby"},
    "judge_from.sql": {"partition"},
    # A change has the name of its leaf.
    "wal2json.py": {"partition", "leaf"},
    # What is refused is answered by another kind of model.
    "judge_nodes.sql": {"roll-up"},
    # Here a batch, or a query, goes on to what is no part of the spine.
    "try_models.sql": {"Spark", "dependent"},
    "begin_models.sql": {"dependent"},
    "run_step.sql": {"dependent"},
    "compile_query.sql": {"dependent"},
}
"""What a file may say of them all the same."""


def test_every_file_is_there_once() -> None:
    assert len(set(NAMES)) == len(NAMES) > 40
    assert [name for name in NAMES if not (ROOT / name).is_file()] == []


def test_it_is_read_in_two_days() -> None:
    lines = [line for path in FILES for line in path.read_text().splitlines() if line.strip()]
    assert 3_000 < len(lines) <= 3_500


def test_it_says_nothing_of_what_hangs_on_it() -> None:
    said = {path.name: set(OTHERS.findall(path.read_text())) for path in FILES}
    assert {name: words for name, words in said.items() if words} == ENTRIES


SAYS = {
    # An option of `loader setup`, a line of `status`, columns of cdc.slot_position.
    *("setup/declared.py", "setup/begin_log.py", "setup/setup.py"),
    # A reason in a comment.
    *("capture/position.py", "staging/change_log.py"),
    *("verbs/setup.py", "monitoring/status.py", "staging/records.py", "staging/target_state.py"),
}
IMPORT = re.compile(r"^.*from loader\.(?:source|findings)\.standbys import .*$", re.MULTILINE)


def test_few_files_know_of_standbys() -> None:
    for path in (ROOT / "loader").rglob("*.py"):
        name = str(path.relative_to(ROOT / "loader"))
        said = re.findall(r"(?i)\bstandbys?\b|failover|timeline", IMPORT.sub("", path.read_text()))
        assert not said or name in SAYS or name.startswith(("source/", "findings/")), name


FUNCTIONS = sorted((ROOT / "loader/staging/functions").rglob("*.sql"))
LONGEST = 80
LONGER = {
    "compile_fact": 85,
    "judge_nodes": 88,
    "write_left_terms": 88,
}
"""Functions of the compiler that are to be split; the figures may only get smaller."""


@pytest.mark.parametrize("path", FUNCTIONS, ids=lambda path: path.stem)
def test_a_function_is_a_file_of_its_name_and_not_long(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^create .*function cdc\.(\w+)", text, re.MULTILINE) == [path.stem]
    assert text.startswith("-- ")
    body = text[text.index("create or replace") :]
    assert len(body.splitlines()) <= LONGER.get(path.stem, LONGEST)
