"""Each function of the staging schema is a file, and fits a screen or two."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.commands import ROOT

FILES = sorted((ROOT / "loader/staging/functions").rglob("*.sql"))
LONGEST = 80
LONGER = {
    **{"compile_fact": 130, "compile_rows": 85, "complete_model": 70, "judge_calls": 136},
    **{"judge_nodes": 88, "last_rows": 93, "read_columns": 105, "write_deltas": 94},
    **{"write_fact": 117, "write_left_terms": 88, "write_merge": 110, "write_rows": 123},
    "write_reader": 251,
}
"""Functions of the compiler that are to be split; the figures may only get smaller."""

TRIED_WHOLE = ("query", "reader", "downstream")
"""Folders whose functions are parts of what tests/queries tries whole, by thousands of queries."""
SHOWN = {
    # Parts of an installation, which tests/dbt/test_queries.py makes by dbt.
    *("former_query", "model_functions", "registered_reading", "source_columns"),
    # Parts of engine='spark' for a query: tests/spark/test_moved_changes.py.
    *("own_places", "add_moved"),
    *("command_name", "require_table"),  # tests/dbt/test_copies.py
    "unless_replaced",  # tests/operations/test_attacks.py
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_function_is_a_file_of_its_name_and_not_long(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^create .*function cdc\.(\w+)", text, re.MULTILINE) == [path.stem]
    assert text.startswith("-- ")
    body = text[text.index("create or replace") :]
    assert len(body.splitlines()) <= LONGER.get(path.stem, LONGEST)


def test_every_function_is_named_in_a_test() -> None:
    paths = [path for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".sql")]
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in paths)))
    assert not [
        path.stem
        for path in FILES
        if path.parent.name not in TRIED_WHOLE and path.stem not in words | SHOWN
    ]
