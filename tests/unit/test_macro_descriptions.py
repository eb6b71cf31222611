"""dbt's docs say of each macro what the comment at the beginning of its file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt_project.describe_macros import FOLDERS, describe, write_yaml


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_macro_begins_with_a_comment(folder: Path) -> None:
    _, text = write_yaml(folder)
    assert text.count("- name:") == len(list(folder.glob("*.sql")))


def test_a_comment_becomes_markdown() -> None:
    text = """{# Make a table
   of rows.

   rows  their number,
         from 1.

   Else none. #}
{% macro make_table(rows) %}"""
    assert describe(text) == (
        "make_table",
        "Make a table\nof rows.\n\n    rows  their number,\n          from 1.\n\nElse none.",
    )
    assert describe("{# It. #}\n{% test is_it(model) %}") == ("test_is_it", "It.")
    assert describe("{% macro bare() %}") is None
