"""`loader setup`: check, then make what the loader needs."""

from __future__ import annotations

from typing import Annotated

import typer

from loader.preflight import setup
from loader.verbs.options import Schema, Slot, Source, Tables, Target, reported
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES, Settings


def setup_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    check: Annotated[bool, typer.Option("--check", help="Only report; change nothing.")] = False,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Make the slot anew after it was lost; the counts then need a new seed."
        ),
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=1, help="Seconds to wait for transactions that are writing.")
    ] = 300,
) -> None:
    """Check the server and the tables, make the staging schema and the slot. Safe to repeat.

    Example: loader setup --check
    """
    with reported():
        settings = Settings.of(source, target, slot, tables, schema)
        if check:
            found = setup.check(settings)
            for finding in found:
                typer.echo(f"Error: {finding.sentence}", err=True)
            if found:
                raise typer.Exit(found[0].exit_code)
            typer.echo("Everything is set up.")
            return
        done = setup.set_up(settings, timeout, renew)
        for line in done or ["Everything is set up already."]:
            typer.echo(line)
