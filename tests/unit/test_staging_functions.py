"""Each function of the staging schema is a file, and fits a screen or two."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testkit.commands import ROOT

FILES = sorted((ROOT / "loader/staging/functions").rglob("*.sql"))
LONGEST = 80


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_function_is_a_file_of_its_name_and_not_long(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^create .*function cdc\.(\w+)", text, re.MULTILINE) == [path.stem]
    assert text.startswith("-- ")
    body = text[text.index("create or replace") :]
    assert len(body.splitlines()) <= LONGEST


def test_every_function_is_named_in_a_test() -> None:
    paths = [path for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".sql")]
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in paths)))
    assert not [path.stem for path in FILES if path.stem not in words]
