"""`loader teardown`: drop what `loader setup` made."""

from __future__ import annotations

from typing import Annotated

import typer

from loader.monitoring import text_lines
from loader.monitoring.text_lines import shown
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, Settings


def teardown_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    drop_data: Annotated[
        bool,
        typer.Option("--drop-data", help="Drop what is staged for the slot too."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Drop the slot, so that it holds no WAL; the counts then stand still.

    Example: loader teardown
    """
    from loader.setup import teardown

    settings = Settings.of(source, target, slot, schema)
    what = f"the slot {slot}" + (f" and what schema {schema} holds for it" if drop_data else "")
    if not yes:
        typer.confirm(
            f"Drop {what}? The counts then stand still; to go on later needs a new seed",
            abort=True,
        )
    with shown(f"dropping {what}"):
        done = teardown.tear_down(settings, drop_data)
    text_lines.write(done or ["There was nothing to drop."])
