"""`loader stats`: a model as a person reads it."""

from __future__ import annotations

from typing import Annotated

import typer

from waltally.options import with_settings
from waltally.settings import Settings


@with_settings("source", "target", "schema")
def stats_command(
    settings: Settings,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="The model's name; without one, the models are listed.",
        ),
    ] = "",
    where: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIMENSION=VALUE]...", help="Only groups with these values."),
    ] = None,
    by: Annotated[
        str, typer.Option(metavar="DIMENSION,...", help="Print a line for each value of these.")
    ] = "",
) -> None:
    """Show the totals of a model's measures, or those of each value of some dimensions.

    Example: loader stats ft_service_stats notification_type=email --by notification_status
    """
    from loader.monitoring import stats, text_lines

    text_lines.echo(stats.stats_lines(settings.target, settings.schema, model, where or [], by))
