"""Lines of text for a person: aligned, and broken only where that does no harm.

Everything that the loader prints or logs goes through here, except JSON: a text from data or names
cannot begin a line of its own.
"""

from __future__ import annotations

import copy
import logging
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from waltally.escapes import escaped

REMEDY = "Try: "
"""Begins a remedy. Its line is never broken, so that its SQL can be pasted."""


def echo(lines: Iterable[str], err: bool = False, first: str = "", rows: int = 0) -> None:
    """Print the lines; on a terminal, break those between words that are too long for it.

    `err`: to standard error. `first` is the color of the first line, in bold; empty for none.
    `rows`: of a terminal at most so many are filled; 0 for all.
    """
    texts = [*map(escaped, lines)]
    if (sys.stderr if err else sys.stdout).isatty():
        width = shutil.get_terminal_size().columns
        texts = "\n".join(broken(text, width) for text in texts).split("\n")
        texts = texts[: rows or None]
    for number, text in enumerate(texts):
        typer.echo(typer.style(text, first, bold=True) if first and not number else text, err=err)


def write(lines: Iterable[str], err: bool = False) -> None:
    """Print the lines as they are, however wide: commands among them can be pasted."""
    for line in lines:
        typer.echo(escaped(line), err=err)


class LogFormatter(logging.Formatter):
    """Formats a record; only a message as the code has it may have several lines."""

    def formatException(self, ei: Any) -> str:
        """Return the traceback, in lines that look like no record."""
        return textwrap.indent(super().formatException(ei), "  ")

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        record = copy.copy(record)
        if isinstance(record.args, tuple):
            numbers = (int, float)
            record.args = tuple(
                value if isinstance(value, numbers) else escaped(str(value))
                for value in record.args
            )
        return "\n".join(map(escaped, super().format(record).split("\n")))


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
    # Only here: most commands print no table, and start faster without these modules.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for number in range(len(rows[0])):
        table.add_column(justify="right" if number in right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(escaped(text)) for text in row))
    console = Console(width=10**6, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().split("\n")[:-1]]


@contextmanager
def shown(what: str, is_long: bool = False) -> Iterator[None]:
    """On a terminal, say what goes on while the block runs: seconds of silence look like a hang.

    What `is_long` has a line of its own where there is no terminal.
    """
    if not sys.stderr.isatty():
        if is_long:
            write([what], err=True)
        yield
        return
    typer.echo(f"{escaped(what)} ...", err=True, nl=False)
    try:
        yield
    finally:
        typer.echo("\r\x1b[K", err=True, nl=False)
