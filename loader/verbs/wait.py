"""`loader wait`: until the models hold what is committed."""

from __future__ import annotations

from typing import Annotated

import typer

from loader.monitoring.text_lines import shown
from waltally.options import parse_lsn, with_settings
from waltally.settings import Settings


@with_settings()
def wait_command(
    settings: Settings,
    position: Annotated[
        str,
        typer.Option(
            "--lsn",
            metavar="LSN",
            show_default="where the source's WAL ends now",
            help="Wait for what was committed before this WAL position.",
        ),
    ] = "",
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            show_default="every model",
            help="Wait for this model alone; repeatable.",
        ),
    ] = None,
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Give up after this time: a number with s, m, h, d or w."
        ),
    ] = "10s",
) -> None:
    """Wait until all models of the slot, or the named ones, hold what is committed at the source.

    The exit code is 41 if that did not happen in time; the error names the models that do not
    follow, or says how far the slot is.

    Example: loader wait --model ft_orders --timeout 30s
    """
    from loader.monitoring.wait import wait
    from waltally.units import parse_age

    seconds = parse_age(timeout, "--timeout")
    at = parse_lsn(position or None, "--lsn")
    with shown("waiting for the models"):
        wait(settings, at, seconds, models or ())
