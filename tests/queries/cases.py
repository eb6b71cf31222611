"""Queries in files: before each a comment with its name or its reason, and after a bar what else."""

from __future__ import annotations

import re
from pathlib import Path


def cases(name: str) -> list[tuple[str, str, str]]:
    """Return of each query of a file the two parts of the comment before it, and itself."""
    text = (Path(__file__).parent / f"{name}.sql").read_text()
    found = re.findall(r"^-- (.+)\n([^-\n].*(?:\n.+)*)", text, re.MULTILINE)
    return [(*head.partition(" | ")[::2], query) for head, query in found]
