"""`loader teardown`: drop what `loader setup` made."""

from __future__ import annotations

from typing import Annotated

import typer

from loader.monitoring import text_lines
from loader.monitoring.text_lines import shown
from waltally.options import with_settings
from waltally.settings import Settings


@with_settings()
def teardown_command(
    settings: Settings,
    drop_data: Annotated[
        bool,
        typer.Option("--drop-data", help="Drop what is staged for the slot too."),
    ] = False,
    source_is_gone: Annotated[
        bool,
        typer.Option(
            "--source-is-gone",
            help="The source is gone for good: delete what the target holds, without it.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Drop the slot and its record, so that it holds no WAL; the counts then stand still.

    Example: loader teardown
    """
    from loader.setup import teardown

    what = f"the {'record of the ' if source_is_gone else ''}slot {settings.slot}"
    what += f" and what schema {settings.schema} holds for it" if drop_data else ""
    if not yes:
        typer.confirm(
            f"Drop {what}? The counts then stand still; to go on later needs a new seed",
            abort=True,
        )
    with shown(f"dropping {what}"):
        drop = teardown.forget_source if source_is_gone else teardown.tear_down
        done = drop(settings, drop_data)
    text_lines.write(
        done
        or [
            f"There was nothing to drop: the source has no slot {settings.slot}, and schema "
            f"{settings.schema} of the target has no record of it."
        ]
    )
