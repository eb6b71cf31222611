"""The README is short, and its pictures are there for those who do not see them too."""

from __future__ import annotations

import re

from testkit.commands import ROOT

README = (ROOT / "README.md").read_text()
MOST_LINES = 150


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_every_picture_is_there_and_described() -> None:
    pictures = re.findall(r"!\[([^]]*)\]\(([^)]+)\)", README)
    assert pictures
    for description, path in pictures:
        assert (ROOT / path).read_bytes().lstrip().startswith((b"<", b"\x89PNG")), path
        assert len(description) > 50, path
