"""Writes the descriptions of the macros for dbt's docs: the comment that each begins with.

python dbt_project/describe_macros.py

dbt reads descriptions from YAML alone. `make docs` writes it, and git does not keep it.
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = (
    *sorted(path for path in (HERE / "macros").iterdir() if path.is_dir()),
    HERE / "tests" / "generic",
)
HEADER = "# Written by `make docs` from the comments of the macros.\nversion: 2\n\nmacros:\n"

_MACRO = re.compile(
    r"(?:^\{#-?(?P<comment>(?:(?!#\}).)*?)-?#\}\s*)?"
    r"^\{%-? (?P<kind>macro|test|materialization) (?P<name>\w+)",
    re.DOTALL | re.MULTILINE,
)
_PREFIXES = {"macro": "", "test": "test_", "materialization": "materialization_"}
_SUFFIXES = {"materialization": "_postgres"}


def describe(text: str) -> dict[str, str]:
    """Return by dbt's name the description of each macro in a file; empty without a comment."""
    return {
        _PREFIXES[found["kind"]] + found["name"] + _SUFFIXES.get(found["kind"], ""): _markdown(
            found["comment"] or ""
        )
        for found in _MACRO.finditer(text)
    }


def _markdown(comment: str) -> str:
    """Return a comment without its indentation; what is laid out in columns stays so."""
    lines = [line.removeprefix("   ").rstrip() for line in comment.strip().splitlines()]
    paragraphs = "\n".join(lines).split("\n\n")
    return "\n\n".join(
        re.sub("^", "    ", each, flags=re.MULTILINE) if re.match(r"\w+ {2,}", each) else each
        for each in paragraphs
    )


def write_yaml(folder: Path) -> tuple[Path, str]:
    """Return the file of a folder's descriptions and what it has to hold."""
    text = HEADER
    for path in sorted(folder.glob("*.sql")):
        for name, description in describe(path.read_text()).items():
            block = re.sub("^(?=.)", " " * 6, description, flags=re.MULTILINE)
            indicator = "|6" if description.startswith(" ") else "|"
            text += f"  - name: {name}\n    description: {indicator}\n{block}\n\n"
    return folder / f"_{folder.name}.yml", text.rstrip() + "\n"


if __name__ == "__main__":
    for folder in FOLDERS:
        path, text = write_yaml(folder)
        path.write_text(text)
