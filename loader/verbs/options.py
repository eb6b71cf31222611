"""What the verbs share: common options, and how an error ends the process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from loader.monitoring import text_lines
from waltally.errors import LoaderError
from waltally.escapes import escaped

Source = Annotated[
    str,
    typer.Option(
        metavar="DSN",
        envvar="LOADER_SOURCE_DSN",
        show_default="libpq's PG* variables",
        help="The application's database: a libpq string or URL.",
    ),
]
Target = Annotated[
    str,
    typer.Option(
        metavar="DSN",
        envvar="LOADER_TARGET_DSN",
        show_default="the source",
        help="The database that holds the change log: a libpq string or URL.",
    ),
]
Slot = Annotated[
    str, typer.Option(metavar="NAME", envvar="LOADER_SLOT", help="The replication slot's name.")
]
Schema = Annotated[
    str,
    typer.Option(metavar="NAME", envvar="LOADER_SCHEMA", help="The staging schema at the target."),
]


@contextmanager
def shown(what: str) -> Iterator[None]:
    """On a terminal, say what goes on while the block runs: seconds of silence look like a hang."""
    if not sys.stderr.isatty():
        yield
        return
    typer.echo(f"{escaped(what)} ...", err=True, nl=False)
    try:
        yield
    finally:
        typer.echo("\r\x1b[K", err=True, nl=False)


@contextmanager
def reported() -> Iterator[None]:
    """End the process with an error's sentence and exit code."""
    try:
        yield
    except LoaderError as error:
        text_lines.echo(f"Error: {error.sentence}".split("\n"), err=True)
        raise typer.Exit(error.exit_code) from None
