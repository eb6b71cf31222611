"""Queries in files: before each a comment with its name or its reason, and after a bar what else.

And in projects of dbt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment

JINJA = Environment(finalize=lambda value: "" if value is None else value)


def cases(name: str) -> list[tuple[str, str, str]]:
    """Return of each query of a file the two parts of the comment before it, and itself."""
    text = (Path(__file__).parent / f"{name}.sql").read_text()
    found = re.findall(r"^-- (.+)\n([^-\n].*(?:\n.+)*)", text, re.MULTILINE)
    return [(*head.partition(" | ")[::2], query) for head, query in found]


def rendered(text: str) -> tuple[str, dict[str, Any]]:
    """Return a model's query over {table} and {model}, and its config."""
    options: dict[str, Any] = {"materialized": "waltally"}
    query = JINJA.from_string(text).render(
        config=options.update, source=lambda _, name: f"{{{name}}}", ref=lambda name: f"{{{name}}}"
    )
    return query, options
