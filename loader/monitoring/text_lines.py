"""Lines of text for a person: aligned, and broken only where that does no harm."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Sequence

import typer

REMEDY = "Try: "
"""What a line with a remedy has. It stays one line, so that its SQL can be pasted."""


def echo(lines: Iterable[str], err: bool = False) -> None:
    """Print the lines; on a terminal, break those between words that are too long for it.

    `err`: to standard error.
    """
    is_terminal = (sys.stderr if err else sys.stdout).isatty()
    width = shutil.get_terminal_size().columns
    for line in lines:
        typer.echo(broken(line, width) if is_terminal else line, err=err)


def broken(text: str, width: int) -> str:
    """Return the text in lines of this width, broken between words; a remedy is left whole."""
    return "\n".join(
        line
        if REMEDY in line
        else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return a line for each row; the columns in `right` end at the same place.

    A value is never cut, whatever the terminal's width.
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for number, (text, width) in enumerate(zip(row, widths, strict=True)):
            blank = " " * (width - _width(text))
            cells.append(blank + text if number in right else text + blank)
        lines.append("  ".join(cells).rstrip())
    return lines


def _width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )
