"""`loader changes`: what each batch changed in a model that keeps its changes."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import Annotated

import typer

from waltally.options import with_settings
from waltally.settings import Settings


@with_settings("target", "slot", "schema")
def changes_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    settings: Settings,
    after: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="NUMBER",
            show_default="all that are kept",
            help="Only those after this one, the last that was read.",
        ),
    ] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Print the changed rows of a model with `changes` in its config, a JSON line for each.

    A line with "read_anew" says that more has changed than is told: read the model, then go on.

    Example: loader changes ft_orders --after 4711 --follow
    """
    from loader.monitoring import changes
    from loader.verbs.run import stop_event
    from waltally.database import connect_target

    with (
        stop_event(signal.SIGTERM, signal.SIGINT) as stop,
        closing(connect_target(settings)) as session,
    ):
        for line in changes.lines(session, model, after, stop if follow else None):
            typer.echo(line)
