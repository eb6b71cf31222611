"""dbt's docs say of each macro what the comment before it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt_project.describe_macros import FOLDERS, describe, write_yaml


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_macro_begins_with_a_comment(folder: Path) -> None:
    described = [describe(path.read_text()) for path in sorted(folder.glob("*.sql"))]
    assert all(described)
    assert [name for each in described for name, text in each.items() if not text] == []
    _, text = write_yaml(folder)
    assert text.count("- name:") == sum(map(len, described))


def test_a_comment_becomes_markdown() -> None:
    text = """{# Make a table
   of rows.

   rows  their number,
         from 1.

   Else none. #}
{% macro make_table(rows) %}"""
    expected = "Make a table\nof rows.\n\n    rows  their number,\n          from 1.\n\nElse none."
    others = "{%- endmacro %}\n\n{# It. #}\n{% test is_it(model) %}\n\n{% macro bare() %}"
    assert describe(text + others) == {"make_table": expected, "test_is_it": "It.", "bare": ""}
