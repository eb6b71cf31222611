"""docs/architecture.md names only files, folders, functions and macros that exist."""

from __future__ import annotations

import re

from testkit.commands import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text()
WALKS = TEXT[TEXT.index("## Five walks") :]
DEFINED = {
    name
    for folder in ("waltally", "loader", "spark", "dbt_project")
    for ending in ("py", "sql")
    for path in (ROOT / folder).rglob(f"*.{ending}")
    for name in (
        path.stem,
        *re.findall(r"(?:def|class|macro|create function) (\w+)", path.read_text()),
    )
}


def test_every_path_exists() -> None:
    for path in re.findall(r"`(\w+/[\w./]*)`", TEXT):
        assert (ROOT / path).exists(), path


def test_every_function_and_macro_of_the_walks_exists() -> None:
    """A name of a table of the database stands in the same code spans, but not in the walks."""
    named = {
        name
        for span in re.findall(r"`([\w.]+)`", WALKS)
        if not span.endswith((".py", ".sql"))
        for name in span.split(".")
    }
    assert named <= DEFINED | {"rejected_changes", "cdc", "logged_table"}, named - DEFINED
