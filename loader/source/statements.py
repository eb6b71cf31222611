"""The SQL of this folder's files, by the files' names."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def statement(name: str) -> str:
    """Return the text of a file; {types_within} in it stands for that of another."""
    folder = resources.files("loader.source")
    within = (folder / "types_within.sql").read_text()
    return (folder / f"{name}.sql").read_text().replace("{types_within}", within)
